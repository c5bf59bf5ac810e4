"""A streaming standby of an embedded server, and a slot that it synchronises."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from pgrelay.embedded.account import server_account, server_folder
from pgrelay.embedded.binaries import postgres_programs
from pgrelay.embedded.daemon import run_tool
from pgrelay.embedded.postgres import Postgres
from tests.integration.databases import Database
from tests.integration.servers import PostgresServer
from tests.integration.waiting import wait_until

# The newest pg_basebackup, from the package of 18, supports older servers as well.
_TOOLS_OF = "18"

SLOT = "standby"


@contextmanager
def standby_of(primary: Postgres, slot: str = SLOT, **settings: str) -> Iterator[Postgres]:
    """Create a physical slot on the primary, and run a standby that streams through it."""
    with psycopg.connect(primary.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot(%s)", [slot])
    account = server_account()
    with server_folder(None, "standby", account) as folder:
        run_tool(
            [
                postgres_programs(_TOOLS_OF, contrib=False) / "pg_basebackup",
                f"--pgdata={folder / 'data'}",
                f"--dbname={primary.dsn}",
                f"--slot={slot}",
                "--checkpoint=fast",
                "--no-sync",
            ],
            cwd=folder,
            account=account,
        )
        (folder / "data" / "standby.signal").touch()
        settings = {
            # pg_basebackup could write this, but its newest version writes options unknown to older servers.
            "primary_conninfo": primary.dsn,
            "primary_slot_name": slot,
            "hot_standby_feedback": "on",
            **settings,
        }
        with Postgres(folder, version=primary.version, contrib=True, settings=settings) as standby:
            yield standby
            # A clean stop would wait for readers of the standby.
            standby.stop("immediate")


def on(server: Postgres, database: Database) -> Database:
    """The same database on another server."""
    return Database(PostgresServer(server.version, server.dsn, server), database.name)


def ask(database: Database, query: str) -> object:
    """The first column of the first row; None if there is no row."""
    with database.connect() as connection:
        row = connection.execute(query.encode()).fetchone()
    return None if row is None else row[0]


def make_failover_slot(database: Database, prefix: str, *, two_phase: bool = False) -> None:
    """Create table t, its publication, and a slot that standbys synchronise."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute(f"CREATE PUBLICATION {prefix} FOR TABLE t")
    database.execute(
        f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput', false, {two_phase}, true)"
    )


def whichever_is_primary(primary: Postgres, standby: Postgres, database: Database) -> str:
    """A DSN with both hosts, for whichever is the primary."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://postgres@{hosts}/{database.name}?target_session_attrs=read-write"


def wait_synced(primary: Database, standby: Database, slot: str) -> None:
    """Wait until the standby has the slot, at its current position on the primary or beyond."""
    moved = ask(primary, f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'")
    query = (
        f"SELECT synced AND NOT temporary AND confirmed_flush_lsn >= '{moved}' "
        f"FROM pg_replication_slots WHERE slot_name = '{slot}'"
    )

    def synced() -> bool:
        try:
            # Otherwise the primary writes what moves the slot every 15 s, and the standby looks every 30 s.
            ask(primary, "SELECT pg_log_standby_snapshot()")
            ask(standby, "SELECT pg_reload_conf()")
            return ask(standby, query) is True
        except psycopg.OperationalError:
            return False

    wait_until(synced, f"slot {slot} on the standby", 60)
