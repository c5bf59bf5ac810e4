"""Tables with random transactions, as Postgres has them and as a mirror does."""

import json
import random
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from tests.integration.databases import Database

TABLES = ("orders", "lines", "log", "bag")

CREATE = """
    CREATE TABLE orders (id int PRIMARY KEY, title varchar(40), price numeric(12,2), at timestamp,
        seen timestamptz, big text, tags text[], pairs jsonb);
    ALTER TABLE orders ALTER big SET STORAGE EXTERNAL;
    CREATE TABLE lines (order_id int, number smallint, qty numeric, PRIMARY KEY (order_id, number));
    ALTER TABLE lines REPLICA IDENTITY FULL;
    CREATE TABLE log (n int, t text);
    CREATE TABLE bag (n int, t text);
    ALTER TABLE bag REPLICA IDENTITY FULL;
"""


class Workload:
    """Random transactions over the tables, the same for a seed."""

    def __init__(self, database: Database, seed: int) -> None:
        self._random = random.Random(seed)
        self._database = database
        self._next = 0

    def run(self, transactions: int) -> None:
        with self._database.connect() as connection:
            for _ in range(transactions):
                with connection.transaction():
                    for _ in range(self._random.randint(1, 4)):
                        self._change(connection)

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        pick = self._random.randint(1, max(self._next, 1))
        change = self._random.choice(
            [self._insert] * 4
            + [
                lambda c: c.execute("UPDATE orders SET title = title || '+' WHERE id = %s", [pick]),
                lambda c: c.execute("UPDATE orders SET big = repeat('y', 4000) WHERE id = %s", [pick]),
                lambda c: c.execute("UPDATE orders SET price = price + 1, tags = NULL WHERE id < %s", [pick]),
                lambda c: c.execute("DELETE FROM orders WHERE id = %s", [pick]),
                lambda c: c.execute("UPDATE lines SET number = number + 100 WHERE order_id = %s", [pick]),
                lambda c: c.execute("DELETE FROM lines WHERE order_id = %s AND number = 1", [pick]),
                lambda c: c.execute("UPDATE bag SET t = t || 'b' WHERE n = %s", [pick % 5]),
                lambda c: c.execute("DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag LIMIT 2)"),
            ]
        )
        change(connection)

    def _insert(self, connection: psycopg.Connection[Any]) -> None:
        self._next += 1
        connection.execute(
            "INSERT INTO orders VALUES (%s, 'Tea', 9.99, '2026-11-20 14:54:02.343135', now(),"
            " repeat('x', 5000), '{a,NULL}', '{\"a\": 1.10}')",
            [self._next],
        )
        connection.execute("INSERT INTO lines VALUES (%s, 1, 0.50), (%s, 2, NULL)", [self._next] * 2)
        connection.execute("INSERT INTO log VALUES (%s, 'x'), (%s, NULL)", [self._next % 7] * 2)
        connection.execute("INSERT INTO bag VALUES (%s, 'a'), (%s, 'a')", [self._next % 5] * 2)


def in_postgres(database: Database, table: str) -> tuple[list[str], Counter[str]]:
    with database.connect() as connection:
        cursor = connection.execute(f"SELECT * FROM {table}".encode())
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        found = cursor.fetchall()
    return names, Counter(shown(row) for row in found)


def mirrored(spark: SparkSession, warehouse: Path, using: str, table: str) -> DataFrame:
    """The rows of `lake.TABLE` in that warehouse, whichever session mirrored it."""
    database = "lake.db" if using == "delta" else "iceberg/lake"
    return spark.read.format(using).load(f"{warehouse}/{database}/{table}")


def in_lake(frame: DataFrame, names: list[str]) -> Counter[str]:
    """Those columns of a mirror's table, in the form that `in_postgres` gives them."""
    return Counter(shown(row) for row in frame.select(*names).collect())


def shown(row: Any) -> str:
    """A row in a form that is equal on both sides: numeric without precision and jsonb are texts in Spark."""

    def one(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, str) and value.startswith("{"):
            return json.loads(value)
        return value

    return repr([one(value) for value in row])
