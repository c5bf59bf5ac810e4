"""At least once: nothing is confirmed whose position Kafka does not have."""

import json
from typing import Any, Final

import pytest

from pgrelay.config import SinkConfig
from pgrelay.encode.records import Record
from pgrelay.handover import Delivery
from pgrelay.kafka.failures import Failures
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.history import History
from pgrelay.postgres.source import System
from pgrelay.progress import InFlight
from pgrelay.relay.gap_checks import Upstream
from pgrelay.relay.positions import Positions
from tests.clock import Clock

SLOT: Final = 0x1000
OFFSETS: Final = Offsets(
    SinkConfig(kafka={"bootstrap.servers": "b"}), "app.offsets", Identity("7", "db", "s")
)


class FakeKafka(Sink):
    """Takes records while it has room, and acknowledges them when told."""

    def __init__(self) -> None:
        self.failures = Failures({})
        self.room = True
        self.values: list[Any] = []
        self._waiting: list[InFlight] = []

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        assert commit_lsn == 0, "a position is of no transaction, which skip could leave out"
        return Delivery(inflight, commit_lsn, self.failures.refused)

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        if not self.room:
            return start
        for topic, key, value, _, partition in records:
            assert (topic, partition) == ("app.offsets", 0)
            assert json.loads(key or b"") == {"systemid": "7", "db": "db", "slot": "s"}
            self.values.append(json.loads(value or b""))
        self._waiting.append(delivery.inflight)
        return len(records)

    def acknowledge(self) -> None:
        for inflight in self._waiting:
            inflight.acknowledged += 1
        self._waiting.clear()

    @property
    def lsns(self) -> list[int]:
        return [value["lsn"] for value in self.values]


@pytest.fixture
def kafka() -> FakeKafka:
    return FakeKafka()


async def nobody_asks() -> int:
    raise AssertionError("the end of WAL was asked for")


@pytest.fixture
def positions(kafka: FakeKafka, clock: Clock) -> Positions:
    server = System("7", 3, 0x9000, History(((2, 0x800),)))
    return Positions(kafka, OFFSETS, Upstream(SLOT, nobody_asks, server, numbering="5e7"))


def test_the_slots_position_is_kept_at_once(kafka: FakeKafka, positions: Positions) -> None:
    """So the loss of a slot before anything was relayed is noticed too."""
    positions.keep(SLOT)
    server = {"timeline": 3, "timeline_began": 0x800}
    assert kafka.values == [{"lsn": SLOT, "commit_lsn": None, "seq": None, **server, "numbering": "5e7"}]


def test_the_confirmable_lsn_waits_for_the_acknowledgement(kafka: FakeKafka, positions: Positions) -> None:
    positions.keep(0x2000)
    positions.keep(0x2000)
    assert (positions.lsn, positions.under_way) == (SLOT, True)
    kafka.acknowledge()
    positions.keep(0x2000)
    assert (positions.lsn, positions.under_way) == (0x2000, False)
    assert kafka.lsns == [0x2000]


def test_the_time_that_a_position_waits_is_known(
    kafka: FakeKafka, positions: Positions, clock: Clock
) -> None:
    assert positions.waits_s == 0
    positions.keep(0x2000)
    clock.now += 31
    assert positions.waits_s == 31
    kafka.acknowledge()
    positions.keep(0x2000)
    assert positions.waits_s == 0


def test_one_position_is_under_way_at_a_time_and_not_too_often(
    kafka: FakeKafka, positions: Positions, clock: Clock
) -> None:
    positions.keep(0x2000)
    clock.now += 10
    positions.keep(0x3000)
    assert positions.rest_s(0x3000) == float("inf")
    kafka.acknowledge()
    positions.keep(0x3000)
    assert kafka.lsns == [0x2000, 0x3000]
    kafka.acknowledge()
    positions.keep(0x4000)
    assert (positions.lsn, kafka.lsns) == (0x3000, [0x2000, 0x3000])
    clock.now += positions.rest_s(0x4000)
    positions.keep(0x4000)
    assert kafka.lsns == [0x2000, 0x3000, 0x4000]


def test_the_last_position_waits_only_for_the_one_before(kafka: FakeKafka, positions: Positions) -> None:
    positions.keep(0x2000)
    positions.keep(0x3000, at_once=True)
    kafka.acknowledge()
    positions.keep(0x3000, at_once=True)
    assert kafka.lsns == [0x2000, 0x3000]


def test_a_full_queue_is_tried_again_later(kafka: FakeKafka, positions: Positions, clock: Clock) -> None:
    kafka.room = False
    positions.keep(0x2000)
    assert not positions.under_way
    assert positions.rest_s(0x2000) > 0
    kafka.room = True
    clock.now += positions.rest_s(0x2000)
    positions.keep(0x2000)
    assert kafka.lsns == [0x2000]


def test_the_kept_lsn_never_falls_below_the_confirmed_one(kafka: FakeKafka, positions: Positions) -> None:
    positions.keep(SLOT - 1)
    kafka.acknowledge()
    positions.keep(SLOT - 1)
    assert positions.lsn == SLOT
