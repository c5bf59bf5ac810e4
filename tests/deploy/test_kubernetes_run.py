"""The ConfigMap's configuration on embedded servers, as the StatefulSet runs it, with a second replica."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from pgrelay.embedded.daemon import Daemon, StrPath
from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.ports import free_port
from pgrelay.embedded.postgres import Postgres
from tests.deploy.manifests import BASE, container, pod, secret
from tests.deploy.shop import environment, status
from tests.integration.topics import read_topic
from tests.integration.waiting import wait_until
from tests.unavailable import skip

_TIMEOUT = 60.0

_BY_HAND = (
    "CREATE ROLE pgrelay LOGIN REPLICATION",
    "CREATE TABLE orders (id int PRIMARY KEY)",
    "CREATE PUBLICATION pgrelay FOR TABLE orders",
    "SELECT pg_create_logical_replication_slot('pgrelay', 'pgoutput')",
)


class Pods:
    """Relays with the same configuration, each with its own status port."""

    def __init__(self, stack: ExitStack, folder: Path, postgres: Postgres, kafka: Kafka) -> None:
        self.postgres = postgres
        self.kafka = kafka
        self._stack = stack
        self._folder = folder
        text = (BASE / "relay.yaml").read_text()
        text = text.replace("postgres:5432", f"127.0.0.1:{postgres.port}")
        self._config = folder / "relay.yaml"
        self._config.write_text(text.replace("kafka:9092", kafka.bootstrap))

    def start(self) -> tuple[Daemon, str]:
        """Start a relay and wait until its liveness probe passes; return it and its status address."""
        port = free_port()
        daemon = Daemon(f"pod {port}", self._folder / f"{port}.log")
        self._stack.callback(daemon.kill)
        more = {
            "PGRELAY_HTTP__LISTEN": f"127.0.0.1:{port}",
            "PGRELAY_TRANSACTIONS__SPOOL_DIR": str(self._folder / f"spool-{port}"),
            "PGRELAY_SINK__REPLICATION_FACTOR": "1",  # there is one broker
            "PGRELAY_SINK__TOPIC_CONFIG__MIN_INSYNC_REPLICAS": "1",
        }
        url = f"http://127.0.0.1:{port}"
        alive = container()["livenessProbe"]["httpGet"]["path"]
        command: list[StrPath] = [sys.executable, "-m", "pgrelay", "run", "--config", self._config]
        with environment(secret() | more):
            daemon.start(
                command, ready=lambda: status(url + alive) == 200, timeout=_TIMEOUT, cwd=self._folder
            )
        return daemon, url


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    with ExitStack() as stack:
        try:
            postgres, kafka = stack.enter_context(Postgres()), stack.enter_context(Kafka())
        except Unavailable as error:
            skip(error)
        with psycopg.connect(postgres.create_database("shop"), autocommit=True) as connection:
            for statement in _BY_HAND:
                connection.execute(statement)
        yield Pods(stack, tmp_path, postgres, kafka)


def test_a_second_replica_waits_and_takes_over_when_the_first_is_terminated(pods: Pods) -> None:
    alive, ready = (container()[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe"))
    first, first_url = pods.start()
    wait_until(lambda: status(first_url + ready) == 200, "the first relay to stream", _TIMEOUT)
    second, second_url = pods.start()
    wait_until(lambda: "is active for PID" in second.log.read_text(), "the second relay to ask for the slot")
    assert (status(second_url + alive), status(second_url + ready)) == (200, 503)

    with psycopg.connect(pods.postgres.dsn_of("shop"), autocommit=True) as connection:
        connection.execute("INSERT INTO orders SELECT generate_series(1, 100)")
        assert len(read_topic(pods.kafka.bootstrap, "shop.public.orders", 100)) == 100
        first.stop(signal.SIGTERM, timeout=pod()["terminationGracePeriodSeconds"])
        assert first.exit_code == 0
        wait_until(lambda: status(second_url + ready) == 200, "the second relay to stream", _TIMEOUT)
        connection.execute("INSERT INTO orders SELECT generate_series(101, 200)")
    ids = {record.json_key["id"] for record in read_topic(pods.kafka.bootstrap, "shop.public.orders", 200)}
    assert ids == set(range(1, 201))
