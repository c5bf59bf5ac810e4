"""Debezium's connector in Kafka Connect, as the benchmark runs it, on the servers of a test."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.contenders import Job
from bench.debezium import configured
from psycopg.conninfo import conninfo_to_dict

from pgrelay.embedded.daemon import Daemon, ServerFailed
from pgrelay.embedded.jars import Unavailable
from tests.integration.databases import Database
from tests.integration.servers import KafkaServer

_START_TIMEOUT = 180.0  # seconds; cold, on busy cores
_STOP_TIMEOUT = 60.0


@contextmanager
def connector(
    database: Database, kafka: KafkaServer, prefix: str, folder: Path, options: Mapping[str, str]
) -> Iterator[None]:
    """Run Debezium for the block; it creates and streams a slot called `prefix`. Raises Unavailable."""
    told = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
    job = Job(
        bin=folder,
        port=int(conninfo_to_dict(database.dsn)["port"] or 5432),
        database=database.name,
        dsn=database.dsn,
        slot=prefix,
        target="",
        bootstrap=kafka.bootstrap,
        prefix=prefix,
        folder=folder,
    )
    try:
        contender = configured("debezium", told | dict(options))
    except Exception as error:  # whatever a Maven resolver without a network may raise
        raise Unavailable(f"Debezium's jars can't be had: {error!r}") from error
    command = contender.command(job)
    daemon = Daemon("Kafka Connect", folder / "connect.log")
    try:
        daemon.start(
            command.arguments,
            ready=lambda: _streams(database, prefix),
            timeout=_START_TIMEOUT,
            cwd=folder,
        )
        yield
    finally:
        try:
            daemon.stop(signal.SIGTERM, timeout=_STOP_TIMEOUT)
        except ServerFailed:
            # A clean stop of Connect may hang, and its successor at the slot must handle a kill as well.
            daemon.kill()


def _streams(database: Database, slot: str) -> bool:
    with database.connect() as connection:
        found = connection.execute(
            "SELECT FROM pg_replication_slots WHERE slot_name = %s AND active", [slot]
        ).fetchone()
    return found is not None
