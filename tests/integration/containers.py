"""Servers in containers, used if there is no embedded server and a container engine answers."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import docker  # type: ignore[import-untyped]
from testcontainers.community.kafka import KafkaContainer
from testcontainers.community.postgres import PostgresContainer

_SETTINGS = (
    "wal_level=logical",
    "max_wal_senders=20",
    "max_replication_slots=20",
    "max_prepared_transactions=20",
    "fsync=off",
    "timezone=UTC",
)


def engine_answers() -> bool:
    """Whether a container engine answers within 2 seconds."""
    try:
        with closing(docker.from_env(timeout=2)) as client:
            return bool(client.ping())
    except docker.errors.DockerException:
        return False


@contextmanager
def postgres_container(version: str) -> Iterator[str]:
    """The URI of the database `postgres` of a new server."""
    container = PostgresContainer(f"postgres:{version}", username="postgres", dbname="postgres", driver=None)
    options = " ".join(f"-c {setting}" for setting in _SETTINGS)
    with container.with_command(f"postgres {options}") as running:
        yield running.get_connection_url()


@contextmanager
def kafka_container() -> Iterator[str]:
    """The bootstrap address of a new broker."""
    container = KafkaContainer().with_kraft().with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    with container.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1").with_env(
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1"
    ) as running:
        yield running.get_bootstrap_server()
