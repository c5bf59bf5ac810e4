"""A workload of large, concurrent transactions that are partly rolled back and end in a different order."""

from contextlib import ExitStack
from typing import Any

import psycopg

from tests.integration.databases import Database

_TABLES = """
CREATE TABLE t (id int PRIMARY KEY, payload text);
CREATE TABLE altered (id int PRIMARY KEY);
CREATE TABLE grown (id int PRIMARY KEY);
CREATE TABLE many (
    id bigint PRIMARY KEY, flag bool, small int2, real4 float4, real8 float8, amount numeric(12, 3),
    word varchar(20), padded char(8), data bytea, day date, at timestamp, at_tz timestamptz, clock time,
    clock_tz timetz, span interval, unique_id uuid, doc jsonb, tags text[], bits varbit, address inet
);
ALTER TABLE many REPLICA IDENTITY FULL;
"""

_MANY = """
INSERT INTO many SELECT g, g % 2 = 0, g, g / 3.0::float4, g / 7.0::float8, g * 1.125, 'wörd ' || g, 'ab',
    '\\x00ff', '2026-11-20', '2026-11-20 14:54:02.343135', '2026-11-20 14:54:02+02', '14:54:02.5',
    '14:54:02.5+02', '1 year 2 mons 3 days 04:05:06.7', md5(g::text)::uuid,
    '{"a": [1, null, "x"]}', '{a,NULL,"b,c"}', B'101', '10.0.0.0/8'
FROM generate_series(1, 200) g
"""


def create_tables(database: Database) -> None:
    """Create the tables, and make the database's walsenders stream transactions larger than 64 kB."""
    database.execute(_TABLES)
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")


def run(database: Database) -> None:
    """Run the workload. Needs max_prepared_transactions; leaves no transaction open."""
    with ExitStack() as stack:
        first, second, third, undone, prepared, ddl = (
            stack.enter_context(database.connect()) for _ in range(6)
        )
        for connection in (first, second, third, undone, prepared, ddl):
            _run(connection, "BEGIN")
        _insert(first, 1, 400)
        _insert(second, 1001, 1200)
        _run(second, "SAVEPOINT s")
        _insert(second, 1201, 1500)
        _insert(third, 2001, 2300)
        _run(third, "SAVEPOINT outer_one")
        _insert(third, 2301, 2400)
        _run(third, "SAVEPOINT inner_one")
        _insert(third, 2401, 2500)
        _run(third, "RELEASE inner_one")
        _insert(undone, 3001, 3300)
        _insert(prepared, 4001, 4300)
        database.execute("INSERT INTO t VALUES (9001, 'small, while the others are open')")
        _run(first, "UPDATE t SET id = id + 100000 WHERE id <= 50; DELETE FROM t WHERE id BETWEEN 51 AND 60")
        _run(second, "ROLLBACK TO s")
        _insert(second, 1201, 1300)
        _run(third, "ROLLBACK TO outer_one")
        _insert(third, 2301, 2350)
        _run(undone, "ROLLBACK")
        _run(prepared, "SAVEPOINT s")
        _insert(prepared, 4301, 4400)
        _run(prepared, "ROLLBACK TO s; PREPARE TRANSACTION 'interleaved'")
        _alter(ddl)
        _run(third, _MANY)
        _run(third, "UPDATE many SET small = -1 WHERE id % 20 = 0; COMMIT")
        _run(first, "COMMIT")
        _run(prepared, "COMMIT PREPARED 'interleaved'")
        _run(second, "UPDATE t SET payload = 'new' WHERE id % 10 = 0 AND id BETWEEN 1001 AND 1300; COMMIT")
        _run(ddl, "COMMIT")


# The expected records of `grown`: each row as it was when it was inserted.
GROWN = [{"id": number} for number in range(1, 301)] + [
    {"id": number, "kept": 8} for number in range(301, 601)
]


def _alter(connection: psycopg.Connection[Any]) -> None:
    """Insert rows of two shapes into each of two tables; one table's second shape is rolled back.

    Not in a single table: PostgreSQL's streaming fails on that (`pgrelay.postgres.errors`).
    """
    _run(connection, "INSERT INTO altered SELECT generate_series(1, 300)")
    _run(connection, "INSERT INTO grown SELECT generate_series(1, 300)")
    _run(connection, "SAVEPOINT s; ALTER TABLE altered ADD undone text DEFAULT 'undone'")
    _run(connection, "INSERT INTO altered SELECT generate_series(301, 600); ROLLBACK TO s")
    _run(connection, "INSERT INTO altered SELECT generate_series(301, 600)")
    _run(connection, "ALTER TABLE grown ADD kept int DEFAULT 7")
    _run(connection, "INSERT INTO grown SELECT generate_series(301, 600), 8")


def _insert(connection: psycopg.Connection[Any], first: int, last: int) -> None:
    _run(
        connection,
        f"INSERT INTO t SELECT g, repeat(md5(g::text), 25) FROM generate_series({first}, {last}) g",
    )


def _run(connection: psycopg.Connection[Any], statements: str) -> None:
    connection.execute(statements.encode())
