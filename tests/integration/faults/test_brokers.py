"""A cluster of three brokers, each partition with three replicas, two of which must acknowledge."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pgrelay.config import SinkConfig
from pgrelay.embedded.jars import Unavailable
from pgrelay.errors import KafkaUnavailable, PgrelayError
from pgrelay.kafka import errors
from pgrelay.kafka.sink import Sink
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.brokers import Brokers
from tests.integration.faults.history import history
from tests.integration.faults.once import TABLE, assert_each_change_is_there_once, ids
from tests.integration.faults.workload import Workload, prepare
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer
from tests.integration.waiting import eventually, wait_until
from tests.unavailable import skip

PATIENCE = 60.0  # seconds
TAKEN_OVER = 45.0  # seconds, on a busy machine; it takes 17

_SAFE = {"min.insync.replicas": "2"}
_QUICK = {"reconnect.backoff.max.ms": 200}  # so the client soon notices that a broker is back


@pytest.fixture(scope="module")
def cluster() -> Iterator[Brokers]:
    with Brokers(3) as brokers:
        yield brokers


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> Brokers:
    """The cluster, with all brokers running."""
    try:
        brokers: Brokers = request.getfixturevalue("cluster")
    except Unavailable as error:
        skip(error)
    brokers.mend()
    return brokers


@pytest.fixture
def kafka(brokers: Brokers) -> KafkaServer:
    return KafkaServer(brokers.bootstrap)


@pytest.fixture
def relay(database: Database, new_relay: NewRelay) -> Relay:
    """A relay with at-least-once delivery that has delivered a row of table t."""
    database.execute(TABLE)
    relay = replicated(new_relay, "at_least_once")
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    return relay


def replicated(new_relay: NewRelay, delivery: str) -> Relay:
    sink: dict[str, Any] = {
        "delivery": delivery,
        "partitions": 3,
        "replication_factor": 3,
        "topic_config": _SAFE,
        "kafka": _QUICK,
    }
    return new_relay(sink=sink, records={"transaction_topic": True}).start().wait_streaming()


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_leader_that_dies_under_load_loses_and_duplicates_nothing(
    database: Database, new_relay: NewRelay, brokers: Brokers, delivery: str
) -> None:
    prepare(database)
    relay = replicated(new_relay, delivery)
    with Workload(database, sessions=1) as workload:
        relay.caught_up()
        leads = wait_until(lambda: brokers.leader(f"{relay.prefix}.offsets"), "a leader")
        workload.wait_for(20)
        brokers.kill(leads)
        workload.wait_for(20)
    relay.caught_up()
    wait_until(lambda: leads not in brokers.live(), "the other replicas to go on without it")
    if delivery == "exactly_once":
        assert_each_change_is_there_once(relay)
    else:
        history(relay)


def test_a_leader_that_hangs_is_given_up_for_the_next(
    database: Database, relay: Relay, brokers: Brokers
) -> None:
    """Its connections stay open, so only the time tells. librdkafka by itself would wait for a minute."""
    leads = wait_until(lambda: brokers.leader(f"{relay.prefix}.offsets"), "a leader")
    brokers.pause(leads)
    database.execute("INSERT INTO t SELECT generate_series(2, 100)")
    relay.caught_up(timeout=TAKEN_OVER)
    assert leads not in brokers.live()
    brokers.mend()
    assert ids(relay) == list(range(1, 101))


def test_two_of_three_brokers_away_are_waited_for_and_reported(
    database: Database, relay: Relay, brokers: Brokers
) -> None:
    for node in (2, 3):
        brokers.kill(node)
    confirmed_lsn = relay.confirmed_lsn()
    database.execute("INSERT INTO t VALUES (2)")
    relay.wait_for(lambda: relay.get("/readyz")[0] == 503, "the relay to notice")
    assert relay.confirmed_lsn() == confirmed_lsn
    brokers.mend()
    relay.caught_up()
    relay.wait_streaming()
    assert ids(relay) == [1, 2]


async def test_topics_are_created_while_a_broker_shuts_down(
    brokers: Brokers, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its partitions have other leaders, a controller reports too few brokers."""
    too_few, told, numbers = KafkaError.INVALID_REPLICATION_FACTOR, set[int](), count()

    def creation_error(topic: str, reason: KafkaError, enough_brokers: bool) -> PgrelayError:
        told.add(reason.code())
        return errors.creation_error(topic, reason, enough_brokers)

    monkeypatch.setattr("pgrelay.kafka.known_topics.creation_error", creation_error)
    monkeypatch.setattr("pgrelay.kafka.known_topics._CREATE_TIMEOUT_S", 2.0)
    brokers.create_topic(f"{prefix}.led", [3, 1, 2], {})
    await eventually(lambda: brokers.leader(f"{prefix}.led") == 3, "the leader")
    sink = Sink(SinkConfig(kafka={"bootstrap.servers": brokers.bootstrap}, replication_factor=3))
    try:
        stopping = asyncio.create_task(asyncio.to_thread(brokers.stop, 3))
        async with asyncio.timeout(PATIENCE):
            while too_few not in told:
                # One that was the controller, too, leaves behind what lasts until it is back.
                with suppress(KafkaUnavailable):
                    await sink.topics.require(f"{prefix}.{next(numbers)}")
        await stopping
    finally:
        await sink.close()


def test_a_check_finds_a_partition_without_a_leader(
    database: Database, new_relay: NewRelay, brokers: Brokers
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay()
    brokers.create_topic(relay.topic("t"), [3], {})
    brokers.kill(3)

    def told() -> list[str]:
        return [finding["what"] for finding in json.loads(relay.command("check", "--json").stdout)]

    # Repeatedly, since one of the remaining brokers may hear of it later than the other.
    missing = f"1 topic with a partition that no broker leads: {relay.topic('t')}"
    wait_until(lambda: missing in told(), "a check to find it")
