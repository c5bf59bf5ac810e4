"""Fixtures of the fault tests: servers that a test may damage, in place of the shared ones."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.servers import KafkaServer, PostgresServer
from tests.unavailable import skip


@pytest.fixture
def postgres(request: pytest.FixtureRequest, version: str) -> Iterator[PostgresServer]:
    """The shared server; the test's own if it is marked `own_postgres`."""
    settings = getattr(request, "param", None)
    if settings is None:
        yield request.getfixturevalue("postgres")
        return
    with ExitStack() as stack:
        try:
            embedded = stack.enter_context(Postgres(version=version, contrib=True, settings=settings))
        except Unavailable as error:
            skip(error)
        yield PostgresServer(version, embedded.dsn, embedded)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaServer]:
    """The shared broker; the test's own if it is marked `own_kafka`."""
    settings = getattr(request, "param", None)
    if settings is None:
        yield request.getfixturevalue("kafka")
        return
    with ExitStack() as stack:
        try:
            embedded = stack.enter_context(Kafka(settings=settings))
        except Unavailable as error:
            skip(error)
        yield KafkaServer(embedded.bootstrap, embedded)


@pytest.fixture
def server(postgres: PostgresServer) -> Postgres:
    """The test's own server."""
    assert postgres.embedded is not None, "mark the test own_postgres"
    return postgres.embedded


@pytest.fixture
def broker(kafka: KafkaServer) -> Kafka:
    """The test's own broker."""
    assert kafka.embedded is not None, "mark the test own_kafka"
    return kafka.embedded
