"""Postgres to pgrelay to Kafka to Spark to Delta and Iceberg: the lake equals the tables, despite kills."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until
from tests.long import long

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0  # seconds; on an idle machine a session starts in ten

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


class MirrorProcess:
    """The mirror of a relay's tables, in a process."""

    def __init__(self, relay: Relay, warehouse: Path) -> None:
        self._relay = relay
        self._warehouse = warehouse
        self.log = warehouse / "mirror.log"

    def start(self, how: str) -> subprocess.Popen[bytes]:
        given = [how, str(self._warehouse), self._relay.kafka.bootstrap, self._relay.prefix, *TABLES]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.mirror_process", *given],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_after(self, commits: int) -> None:
        """Run it, and kill it once the orders have this many commits in Delta, during the next one."""
        process = self.start("for ever")
        log = self._warehouse / "lake.db" / "orders" / "_delta_log"
        before = len(list(log.glob("*.json")))

        def far_enough() -> bool:
            assert process.poll() is None, self.log.read_text()[-4000:]
            return len(list(log.glob("*.json"))) >= before + commits

        try:
            wait_until(far_enough, f"{commits} commits", PATIENCE)
        finally:
            _kill(process)

    def finish(self) -> None:
        """Run it up to the end of the topics."""
        process = self.start("once")
        try:
            code = process.wait(PATIENCE)
        finally:
            _kill(process)
        assert code == 0, self.log.read_text()[-4000:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill all of it: Python, and the Java below it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@long
@pytest.mark.timeout(900)
def test_the_lake_equals_postgres_after_kills_of_both_ends(
    spark: SparkSession, warehouse: Path, new_relay: NewRelay, database: Database, tmp_path: Path
) -> None:
    database.execute(CREATE)
    relay = new_relay().start().wait_streaming()
    workload = Workload(database, 7)
    mirror = MirrorProcess(relay, tmp_path)
    workload.run(60)
    relay.caught_up()
    mirror.kill_after(2)
    workload.run(60)
    relay.kill()
    workload.run(40)
    database.execute(
        "ALTER TABLE orders ADD COLUMN extra int; ALTER TABLE orders RENAME COLUMN title TO name"
    )
    database.execute(
        "UPDATE orders SET extra = id WHERE id % 3 = 0; TRUNCATE log; INSERT INTO log VALUES (1, 'z')"
    )
    relay.start().wait_streaming()
    relay.caught_up()
    mirror.kill_after(2)
    database.execute("ALTER TABLE orders ALTER COLUMN price TYPE numeric(14,2), DROP COLUMN tags")
    database.execute("UPDATE orders SET price = price * 1000 WHERE id % 2 = 0")
    relay.caught_up()
    mirror.finish()
    for table in TABLES:
        expected = _in_postgres(database, table)
        for using in ("delta", "iceberg"):
            assert _in_lake(spark, tmp_path, table, using, expected[0]) == expected[1], f"{table} in {using}"


def _in_postgres(database: Database, table: str) -> tuple[list[str], Counter[str]]:
    with database.connect() as connection:
        cursor = connection.execute(f"SELECT * FROM {table}".encode())
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        found = cursor.fetchall()
    return names, Counter(_shown(row) for row in found)


def _in_lake(spark: SparkSession, warehouse: Path, table: str, using: str, names: list[str]) -> Counter[str]:
    if using == "delta":
        frame = spark.read.format("delta").load(f"{warehouse}/lake.db/{table}")
    else:
        frame = spark.read.format("iceberg").load(f"{warehouse}/iceberg/lake/{table}")
    assert set(frame.columns) == {*names, "__commit_lsn", "__seq"}
    return Counter(_shown(row) for row in frame.select(*names).collect())


def _shown(row: Any) -> str:
    """A row in a form that is equal on both sides: numeric without precision and jsonb are texts in Spark."""

    def one(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat()
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, str) and value.startswith("{"):
            return json.loads(value)
        return value

    return repr([one(value) for value in row])
