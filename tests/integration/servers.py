"""The servers that integration tests run against, each started at its first use.

The first of these that is available: the address in PGRELAY_TEST_POSTGRES (a superuser's DSN) or
PGRELAY_TEST_KAFKA (host:port); a server from packages; a container.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.containers import engine_answers, kafka_container, postgres_container

T = TypeVar("T")

ALL_VERSIONS = [str(major) for major in range(10, 19)]
FULL_VERSIONS = ["14", "16", "18"]
DEFAULT_VERSION = "18"

on_all_versions = pytest.mark.parametrize("version", ALL_VERSIONS, indirect=True)
on_full_versions = pytest.mark.parametrize("version", FULL_VERSIONS, indirect=True)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    version: str  # the major one
    dsn: str
    embedded: Postgres | None = None  # set if we started it: can be stopped and restarted

    def dsn_of(self, database: str) -> str:
        return make_conninfo(self.dsn, dbname=database)


@dataclass(frozen=True, slots=True)
class KafkaServer:
    bootstrap: str
    embedded: Kafka | None = None  # set if we started it: can be killed, paused, and reached through a proxy


class Servers:
    """The servers of one test session; all of them stop at the end of the block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._postgres: dict[str, PostgresServer | Unavailable] = {}
        self._kafka: KafkaServer | Unavailable | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def postgres(self, version: str) -> PostgresServer:
        """The server of this major version. Raises Unavailable, and tries only once."""
        if version not in self._postgres:
            self._postgres[version] = _outcome(lambda: self._start_postgres(version))
        return _available(self._postgres[version])

    def kafka(self) -> KafkaServer:
        """The broker. Raises Unavailable, and tries only once."""
        if self._kafka is None:
            self._kafka = _outcome(self._start_kafka)
        return _available(self._kafka)

    def _start_postgres(self, version: str) -> PostgresServer:
        given = os.environ.get("PGRELAY_TEST_POSTGRES")
        if given and _major_version(given) == version:
            return PostgresServer(version, given)
        try:
            embedded = self._stack.enter_context(Postgres(version=version, contrib=True))
        except Unavailable as error:
            return PostgresServer(version, self._contained(postgres_container(version), error))
        return PostgresServer(version, embedded.dsn, embedded)

    def _start_kafka(self) -> KafkaServer:
        if given := os.environ.get("PGRELAY_TEST_KAFKA"):
            return KafkaServer(given)
        try:
            embedded = self._stack.enter_context(Kafka())
        except Unavailable as error:
            return KafkaServer(self._contained(kafka_container(), error))
        return KafkaServer(embedded.bootstrap, embedded)

    def _contained(self, container: AbstractContextManager[str], otherwise: Unavailable) -> str:
        if not engine_answers():
            raise otherwise
        return self._stack.enter_context(container)


def default_version() -> str:
    """The major version for tests that do not request one."""
    given = os.environ.get("PGRELAY_TEST_POSTGRES")
    return _major_version(given) if given else DEFAULT_VERSION


def _major_version(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        return str(connection.info.server_version // 10_000)


def _outcome(start: Callable[[], T]) -> T | Unavailable:
    try:
        return start()
    except Unavailable as error:
        return error


def _available(outcome: T | Unavailable) -> T:
    if isinstance(outcome, Unavailable):
        raise outcome
    return outcome
