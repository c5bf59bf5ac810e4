"""One database of a server for one test, which leaves nothing behind."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgrelay.lsn import parse_lsn
from tests.integration.servers import PostgresServer
from tests.integration.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Database:
    server: PostgresServer
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.name)

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection in autocommit mode and UTF-8, which the caller closes."""
        return psycopg.connect(self.dsn, autocommit=True, client_encoding="UTF8")

    def execute(self, statement: str) -> None:
        """Run statements on a new connection."""
        with self.connect() as connection:
            connection.execute(statement.encode())

    def execute_at(self, statement: str) -> int:
        """Run statements in a transaction; return the LSN right before its commit.

        A slot that has not delivered it is not further on, but may be beyond its rows: on a busy machine they
        can be on disk long before the commit, and a slot moves past what has no commit.
        """
        with self.connect() as connection, connection.transaction():
            connection.execute(statement.encode())
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])


def drop_database(database: Database) -> None:
    """Drop a database with its slots and prepared transactions, even if clients are connected to it."""
    embedded = database.server.embedded
    if embedded is not None and not embedded.running:
        embedded.start()
    with database.connect() as connection:
        _roll_back_prepared(connection, database.name)
    with psycopg.connect(database.server.dsn, autocommit=True) as connection:
        wait_until(lambda: _drop_slots(connection, database.name), f"the slots of {database.name} to go")
        wait_until(lambda: _drop(connection, database.name), f"the sessions of {database.name} to end")


def _drop(connection: psycopg.Connection[Any], name: str) -> bool:
    """End the sessions and drop the database; return False if a session still prevents that."""
    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    try:
        connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
    except psycopg.errors.ObjectInUse:
        return False
    return True


def _roll_back_prepared(connection: psycopg.Connection[Any], name: str) -> None:
    for (gid,) in connection.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE database = %s", [name]
    ).fetchall():
        connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))


def _drop_slots(connection: psycopg.Connection[Any], name: str) -> bool:
    """Drop unused slots, end the sessions of the others, and return whether all are gone."""
    try:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE database = %s AND NOT active",
            [name],
        )
    except psycopg.errors.ObjectInUse:
        return False  # by a killed relay's last request
    in_use = connection.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s", [name]
    )
    return not in_use.fetchall()
