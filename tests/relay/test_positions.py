"""At least once: nothing is confirmed whose position Kafka does not have."""

import json
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError

from pgrelay.errors import RecordRefused
from pgrelay.postgres.source import System
from pgrelay.postgres.timeline_history import TimelineHistory
from pgrelay.relay.gap_checks import Upstream
from pgrelay.relay.positions import Positions
from tests.clock import Clock
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import OFFSETS, sink_of

SLOT: Final = 0x1000
# More rows are on their way.
ROWS: Final = 0x9000


class Kafka:
    """Takes positions while it has room, and acknowledges them when told."""

    def __init__(self) -> None:
        self.producer = FakeProducer()
        self.sink = sink_of(self.producer)

    def acknowledge(self) -> None:
        self.producer.answer()
        self.sink.poll()

    @property
    def values(self) -> list[Any]:
        for message in self.producer.produced:
            assert (message.topic(), message.partition()) == ("app.offsets", 0)
            assert json.loads(message.key() or b"") == {"systemid": "7", "db": "db", "slot": "s"}
        return [json.loads(message.value() or b"") for message in self.producer.produced]

    @property
    def lsns(self) -> list[int]:
        return [value["lsn"] for value in self.values]


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


async def nobody_asks() -> int:
    raise AssertionError("the end of WAL was asked for")


@pytest.fixture
def positions(kafka: Kafka, clock: Clock) -> Positions:
    server = System("7", 3, 0x9000, TimelineHistory(((2, 0x800),)))
    return Positions(kafka.sink, OFFSETS, Upstream(SLOT, nobody_asks, server, numbering="5e7"))


def test_the_slots_position_is_kept_at_once(kafka: Kafka, positions: Positions) -> None:
    """So the loss of a slot before anything was relayed is noticed too."""
    positions.write(SLOT, ROWS)
    server = {"timeline": 3, "timeline_began": 0x800}
    assert kafka.values == [{"lsn": SLOT, "commit_lsn": None, "seq": None, **server, "numbering": "5e7"}]


def test_the_confirmable_lsn_waits_for_the_acknowledgement(kafka: Kafka, positions: Positions) -> None:
    positions.write(0x2000, ROWS)
    positions.write(0x2000, ROWS)
    assert (positions.lsn, positions.unacknowledged_s) == (SLOT, 0)
    kafka.acknowledge()
    positions.write(0x2000, ROWS)
    assert (positions.lsn, positions.unacknowledged_s) == (0x2000, None)
    assert kafka.lsns == [0x2000]


def test_the_time_that_a_position_waits_is_known(kafka: Kafka, positions: Positions, clock: Clock) -> None:
    assert positions.unacknowledged_s is None
    positions.write(0x2000, ROWS)
    clock.now += 31
    assert positions.unacknowledged_s == 31
    kafka.acknowledge()
    positions.write(0x2000, ROWS)
    assert positions.unacknowledged_s is None


def test_one_position_is_under_way_at_a_time_and_not_too_often(
    kafka: Kafka, positions: Positions, clock: Clock
) -> None:
    positions.write(0x2000, ROWS)
    clock.now += 10
    positions.write(0x3000, ROWS)
    assert positions.due_in_s(0x3000, ROWS) == float("inf")
    kafka.acknowledge()
    positions.write(0x3000, ROWS)
    assert kafka.lsns == [0x2000, 0x3000]
    kafka.acknowledge()
    positions.write(0x4000, ROWS)
    assert (positions.lsn, kafka.lsns) == (0x3000, [0x2000, 0x3000])
    clock.now += positions.due_in_s(0x4000, ROWS)
    positions.write(0x4000, ROWS)
    assert kafka.lsns == [0x2000, 0x3000, 0x4000]


def test_a_position_past_all_rows_waits_for_longer(kafka: Kafka, positions: Positions, clock: Clock) -> None:
    """A server may have many relays, and most of its WAL is of no interest to any one of them."""
    positions.write(0x2000, 0x2000)
    kafka.acknowledge()
    positions.write(0x3000, 0x2000)
    assert (positions.lsn, kafka.lsns) == (0x2000, [0x2000])
    idle_s = positions.due_in_s(0x3000, 0x2000)
    assert idle_s > positions.due_in_s(0x3000, 0x2800) > 0
    clock.now += idle_s
    positions.write(0x3000, 0x2000)
    assert kafka.lsns == [0x2000, 0x3000]


def test_the_last_position_waits_only_for_the_one_before(kafka: Kafka, positions: Positions) -> None:
    positions.write(0x2000, ROWS)
    positions.write(0x3000, ROWS, at_once=True)
    kafka.acknowledge()
    positions.write(0x3000, ROWS, at_once=True)
    assert kafka.lsns == [0x2000, 0x3000]


def test_a_full_queue_is_tried_again_later(kafka: Kafka, positions: Positions, clock: Clock) -> None:
    kafka.producer.room = 0
    positions.write(0x2000, ROWS)
    assert positions.unacknowledged_s is None
    assert positions.due_in_s(0x2000, ROWS) > 0
    kafka.producer.room = 1
    clock.now += positions.due_in_s(0x2000, ROWS)
    positions.write(0x2000, ROWS)
    assert kafka.lsns == [0x2000]


def test_the_kept_lsn_never_falls_below_the_confirmed_one(kafka: Kafka, positions: Positions) -> None:
    positions.write(SLOT - 1, ROWS)
    kafka.acknowledge()
    positions.write(SLOT - 1, ROWS)
    assert positions.lsn == SLOT


def test_a_refused_position_is_of_no_transaction(kafka: Kafka, positions: Positions) -> None:
    """Otherwise skip could leave that out."""
    positions.write(0x2000, ROWS)
    kafka.producer.answer(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(RecordRefused) as caught:
        kafka.sink.poll()
    assert (caught.value.topic, caught.value.commit_lsn) == ("app.offsets", 0)
