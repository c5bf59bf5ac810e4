"""Another Kafka cluster for a slot: "Another Kafka cluster" in docs/operations.md, with both deliveries."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pgrelay.embedded.jars import Unavailable
from pgrelay.embedded.kafka import Kafka
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.once import TABLE, exactly_once, ids, offsets_topic, positions
from tests.integration.faults.outcomes import LOST, last_words
from tests.integration.faults.slots import wait_free
from tests.integration.relays import Relay
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic, delete_topic
from tests.unavailable import skip

# One worker runs them all, on one other broker.
pytestmark = pytest.mark.xdist_group("other_kafka")


@pytest.fixture(scope="module")
def other() -> Iterator[KafkaServer]:
    try:
        with Kafka() as kafka:
            yield KafkaServer(kafka.bootstrap)
    except Unavailable as error:
        skip(error)


@pytest.fixture(params=["at_least_once", "exactly_once"])
def relay(database: Database, new_relay: NewRelay, request: pytest.FixtureRequest) -> Relay:
    """A relay of table t that has delivered the row of id 0, and streams."""
    database.execute(TABLE)
    relay = exactly_once(new_relay, sink={"delivery": request.param}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    return relay


def stop(relay: Relay) -> None:
    assert relay.stop() == 0
    wait_free(relay.database, relay.prefix)


def copy_positions(relay: Relay, other: KafkaServer) -> None:
    """Copy the relay's positions, as they are now, to the other cluster."""
    create_topic(other.bootstrap, offsets_topic(relay), cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": other.bootstrap})
    for record in positions(relay):
        producer.produce(record.topic, record.value, record.key)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("copied", [False, True], ids=["without positions", "with a copy of them"])
def test_a_relay_goes_on_in_another_cluster_where_it_stopped(
    relay: Relay, other: KafkaServer, copied: bool
) -> None:
    stop(relay)
    if copied:
        copy_positions(relay, other)
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.kafka = other
    relay.start().caught_up()
    assert ids(relay) == [1]


def test_a_copy_of_the_positions_that_lags_is_refused(relay: Relay, other: KafkaServer) -> None:
    copy_positions(relay, other)
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    stop(relay)
    relay.kafka = other
    assert "but Kafka has everything only up to" in last_words(relay.start(), LOST)


def test_only_a_copy_of_the_positions_notices_a_gap(relay: Relay, other: KafkaServer) -> None:
    stop(relay)
    copy_positions(relay, other)
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.database.execute(f"SELECT pg_replication_slot_advance('{relay.prefix}', pg_current_wal_lsn())")
    relay.kafka = other
    assert "the slot was moved or re-created" in last_words(relay.start(), LOST)
    delete_topic(other.bootstrap, offsets_topic(relay))
    relay.start().wait_streaming()
