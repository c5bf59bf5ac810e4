"""The SQL in the pages runs unchanged, on its own server."""

import re
from collections.abc import Iterator
from typing import Final

import psycopg
import pytest

from pgrelay.embedded.postgres import Postgres
from tests.docs.pages import Block, blocks

# What a page assumes: the reader's own tables, or what an earlier page has created.
_GIVEN: Final = {
    "docs/operations.md": "SELECT pg_create_logical_replication_slot('pgrelay', 'pgoutput')",
    "docs/security.md": "CREATE TABLE orders (id int); CREATE TABLE customers (id int)",
    "docs/spark.md": "CREATE TABLE orders (id int PRIMARY KEY, note text)",
}

# Blocks for another server than the page's first, or instead of the block before.
_ANEW: Final = "DROP PUBLICATION IF EXISTS pgrelay; DROP ROLE IF EXISTS pgrelay"

PAGES: Final = sorted({block.page for block in blocks("sql")} - {"docs/quickstart.md"})


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.mark.parametrize("page", PAGES)
def test_the_sql_of_a_page_runs_in_order(server: Postgres, page: str) -> None:
    """The quick start has its own test, which runs all of it."""
    name = re.sub(r"\W", "_", page)
    dsn = server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_GIVEN.get(page, "SELECT 1").encode())
        for block in blocks("sql"):
            if block.page == page:
                _run(connection, block, name)
        connection.execute(
            b"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            b"WHERE database = current_database()"
        )
        connection.execute(
            f"DROP OWNED BY pgrelay; {_ANEW}".encode() if _has_role(connection) else _ANEW.encode()
        )


def _run(connection: psycopg.Connection[tuple[object, ...]], block: Block, database: str) -> None:
    # The pages call it app.
    for statement in _statements(block.text.replace("DATABASE app", f'DATABASE "{database}"')):
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            pytest.fail(f"{block}: {statement}: {error}")


def _statements(text: str) -> list[str]:
    """The statements one by one, because ALTER SYSTEM must be alone. No statement contains a semicolon."""
    without_comments = re.sub(r"--.*", "", text)
    return [statement.strip() for statement in without_comments.split(";") if statement.strip()]


def _has_role(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    return connection.execute("SELECT FROM pg_roles WHERE rolname = 'pgrelay'").fetchone() is not None
