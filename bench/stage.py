"""The servers of a benchmark, and a load on them: WAL that is already written, and slots that precede it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.procfs import child_running
from bench.workloads import Workload
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres

PUBLICATION = "bench"
_BASE_SLOT = "bench_base"

# Turn off background work that would otherwise happen now and then in the middle of a run.
_QUIET = {
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "64GB",
    "shared_buffers": "512MB",
    "synchronous_commit": "off",
}

# Kafka maps an index file of 10 MB for each partition, and the kernel reads ahead a lot at the first access:
# with 1,000 tables that took nine tenths of the broker's CPU.
_BROKER = {"file.delete.delay.ms": "1000", "log.index.size.max.bytes": "262144"}

Connection = psycopg.Connection[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One Postgres and one broker. `folder` is for files of this run."""

    postgres: Postgres
    bootstrap: str
    broker_pid: int
    folder: Path


@contextmanager
def servers(folder: Path) -> Iterator[Stage]:
    """Run both servers for the block; SIGTERM ends it too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Postgres(settings=_QUIET) as postgres, Kafka(settings=_BROKER) as kafka:
        yield Stage(postgres, kafka.bootstrap, child_running("kafka.Kafka"), folder)


@dataclass(frozen=True, slots=True)
class Load:
    """A workload in its own database. `target` is the end of the WAL after it, as Postgres prints it."""

    workload: Workload
    database: str
    dsn: str
    target: str
    wal_bytes: int


@contextmanager
def loaded(stage: Stage, workload: Workload) -> Iterator[Load]:
    """Write the workload's WAL; its database and slots are dropped after the block."""
    database = f"bench_{workload.name}"
    dsn = stage.postgres.create_database(database)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            prepare(connection, workload)
            start = _wal_end(connection)
            connection.execute(workload.load_sql.encode())
            target = _wal_end(connection)
            connection.execute("CHECKPOINT")
            [wal_bytes] = _one_row(connection, f"SELECT '{target}'::pg_lsn - '{start}'::pg_lsn")
        yield Load(workload, database, dsn, target, int(str(wal_bytes)))
    finally:
        with psycopg.connect(stage.postgres.dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                [database],
            )
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


def prepare(connection: Connection, workload: Workload) -> None:
    """Create the tables, the publication, and the slot that all others are copied from."""
    connection.execute(workload.setup_sql.encode())
    connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES".encode())
    connection.execute("CHECKPOINT")
    connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [_BASE_SLOT])


@contextmanager
def slot_copy(connection: Connection, name: str) -> Iterator[str]:
    """A slot that precedes the load, for the block; its reader must end before the block does."""
    connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [_BASE_SLOT, name])
    try:
        yield name
    finally:
        # A walsender whose client was killed only notices when it next writes.
        with suppress(psycopg.errors.ObjectInUse):
            connection.execute(
                "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
                "WHERE slot_name = %s",
                [name],
            )
            connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


def flushing(dsn: str) -> Connection:
    """A connection whose commits are sent at once.

    The stage's servers commit asynchronously, and a walsender only sends flushed WAL.
    """
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute("SET synchronous_commit = on")
    return connection


def _wal_end(connection: Connection) -> str:
    [lsn] = _one_row(connection, "SELECT pg_current_wal_insert_lsn()::text")
    return str(lsn)


def _one_row(connection: Connection, query: str) -> tuple[object, ...]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row
