"""Fixtures on real servers: one of each kind and version per worker, a database and a prefix per test."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres, create_database
from pgrelay.embedded.registry import SchemaRegistry
from tests.integration.databases import Database, drop_database
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer, PostgresServer, Servers, default_version
from tests.unavailable import skip

T = TypeVar("T")


@pytest.fixture(autouse=True)
def quick_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `check` see for a moment only how fast WAL grows."""
    monkeypatch.setattr("pgrelay.check.slot._RATE_OVER_S", 0.05)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers() as servers:
        yield servers


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    """The major version of Postgres, set by `on_all_versions` and `on_full_versions`."""
    return str(getattr(request, "param", None) or default_version())


@pytest.fixture
def postgres(servers: Servers, version: str) -> PostgresServer:
    return _or_skip(lambda: servers.postgres(version))


@pytest.fixture
def kafka(servers: Servers) -> KafkaServer:
    return _or_skip(servers.kafka)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A prefix of at most 40 characters for the test's topics, slots, publications and databases."""
    return f"{re.sub(r'[^a-z0-9]+', '_', request.node.name.lower())[:31]}_{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SchemaRegistry]:
    """A schema registry, for tests in the group `registry`: it takes about twenty seconds to start."""
    with ExitStack() as stack:
        yield _or_skip(lambda: stack.enter_context(SchemaRegistry()))


class NewDatabase(Protocol):
    def __call__(self, **options: str) -> Database: ...


@pytest.fixture
def new_database(postgres: PostgresServer, prefix: str) -> Iterator[NewDatabase]:
    """Creates databases, with options of CREATE DATABASE; drops them afterwards, even if they are in use."""
    with ExitStack() as stack:
        count = 0

        def create(**options: str) -> Database:
            nonlocal count
            count += 1
            database = Database(postgres, f"{prefix}_{count}")
            create_database(postgres.dsn, database.name, **options)
            stack.callback(drop_database, database)
            return database

        yield create


@pytest.fixture
def database(new_database: NewDatabase) -> Database:
    """A fresh database, UTF8."""
    return new_database()


class NewRelay(Protocol):
    def __call__(self, suffix: str = "", /, **sections: dict[str, Any]) -> Relay: ...


@pytest.fixture
def new_relay(database: Database, kafka: KafkaServer, prefix: str, tmp_path: Path) -> Iterator[NewRelay]:
    """Creates relays of the test's database, not started yet; all of them end with the test.

    Relays with the same suffix share a slot and its topics; relays with different suffixes share nothing.
    """
    with ExitStack() as stack:
        count = 0

        def make(suffix: str = "", /, **sections: dict[str, Any]) -> Relay:
            nonlocal count
            count += 1
            folder = tmp_path / f"relay-{count}"
            return stack.enter_context(Relay(database, kafka, prefix + suffix, folder, sections))

        yield make


@pytest.fixture
def relay(new_relay: NewRelay) -> Relay:
    """A relay with the default configuration that is streaming already."""
    return new_relay().start().wait_streaming()


@pytest.fixture
def embedded_kafka(kafka: KafkaServer) -> Iterator[Kafka]:
    """The broker, for a test that stops, kills or pauses it; it runs again afterwards."""
    if kafka.embedded is None:
        pytest.skip("needs a broker of our own: unset PGRELAY_TEST_KAFKA")
    yield kafka.embedded
    if kafka.embedded.running:
        kafka.embedded.resume()
    else:
        kafka.embedded.start()


@pytest.fixture
def kafka_proxy(embedded_kafka: Kafka) -> Iterator[Proxy]:
    """A proxy in front of the broker; clients reach it at `proxied_bootstrap`."""
    with Proxy(embedded_kafka.proxy_target_port, embedded_kafka.proxy_port) as proxy:
        yield proxy


@pytest.fixture
def embedded_postgres(postgres: PostgresServer) -> Iterator[Postgres]:
    """The server, for a test that stops or restarts it, or changes its settings; restored afterwards."""
    embedded = postgres.embedded
    if embedded is None:
        pytest.skip("needs a server of our own: unset PGRELAY_TEST_POSTGRES")
    settings = dict(embedded.settings)
    yield embedded
    if embedded.settings != settings:
        embedded.settings = settings
        embedded.stop("immediate")
    if not embedded.running:
        embedded.start()


def _or_skip(server: Callable[[], T]) -> T:
    """The server; if unavailable, skip the test, or fail it on CI, where a skip would go unnoticed."""
    try:
        return server()
    except Unavailable as error:
        skip(error)
