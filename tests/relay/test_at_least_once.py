"""At least once: what a start checks, what consumers may have, and what is worth waiting for.

There is no broker.
"""

from typing import cast

import pytest
from confluent_kafka import KafkaError

from pgrelay.errors import GapError, PositionError
from pgrelay.kafka.offsets import Offsets, Position
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.slots import Slot
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.at_least_once import AtLeastOnce, AtLeastOnceMode
from pgrelay.relay.gap_checks import Upstream
from pgrelay.relay.resume_point import ResumePoint
from pgrelay.relay.server import Server
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import FakeOffsets, record, sink_of
from tests.relay.relaying import WAL_END, answer, upstream
from tests.relay.test_resume_point import CONFIRMED, OURS, PRIMARY, slot
from tests.relay.test_stored_position import FakeTopics, Unreadable, sink_with


class FakeServer:
    """Kafka has this position of its slot."""

    def __init__(self, kept: Position | None = None) -> None:
        self.offsets: Offsets = FakeOffsets(kept)

    def upstream(self, slot: Slot) -> Upstream:
        return upstream(slot.confirmed_flush_lsn or 0, answer(WAL_END))


async def check_slot(resume_point: ResumePoint, kept: Position | None, *, allowed: bool = True) -> list[str]:
    """Check the slot at CONFIRMED against this position; returns the warnings. `allowed`: we may read it."""
    warned: list[str] = []
    sink = sink_with(FakeTopics(ours=allowed, heard=True))
    mode = AtLeastOnceMode(sink, resume_point, lambda event, **_: warned.append(event))
    await mode.check_against_kafka(cast(Server, FakeServer(kept)), slot())
    return warned


async def test_a_first_start_learns_the_position_in_kafka() -> None:
    resume_point = ResumePoint()
    assert await check_slot(resume_point, Position(CONFIRMED + 8)) == []
    assert resume_point.delivered_lsn == CONFIRMED + 8


async def test_a_slot_ahead_of_the_position_in_kafka_is_refused() -> None:
    with pytest.raises(GapError, match="the slot was moved or re-created"):
        await check_slot(ResumePoint(), Position(CONFIRMED - 1))


async def test_if_nobody_moved_the_slot_the_position_is_not_read_again() -> None:
    resume_point = ResumePoint()
    resume_point.adopt_slot(PRIMARY, slot(), OURS, standby=False)
    assert await check_slot(resume_point, Position(CONFIRMED - 1)) == []


async def test_a_run_without_positions_goes_on_but_notices_that_its_slot_was_moved() -> None:
    (warning,) = await check_slot(ResumePoint(), None, allowed=False)
    assert warning.startswith("Kafka keeps no position: if the slot is lost while pgrelay is down, ")
    resume_point = ResumePoint()
    resume_point.adopt_slot(PRIMARY, slot(CONFIRMED - 1), OURS, standby=False)
    with pytest.raises(GapError, match="the slot was moved or re-created"):
        await check_slot(resume_point, None, allowed=False)


async def test_a_run_does_not_go_on_past_a_position_that_is_none() -> None:
    sink, server = sink_with(FakeTopics(ours=True, heard=True)), FakeServer()
    server.offsets = Unreadable(PositionError("rubbish"))
    with pytest.raises(PositionError, match=r"^rubbish$"):
        await AtLeastOnceMode(sink, ResumePoint(), print).check_against_kafka(cast(Server, server), slot())


def guarantee_of(sink: Sink, ledger: Ledger) -> AtLeastOnce:
    return AtLeastOnce(sink, ledger, None)


def test_consumers_may_have_records_before_kafka_acknowledges_them() -> None:
    guarantee = guarantee_of(sink_of(FakeProducer()), Ledger())
    entry = InFlight(0)
    guarantee.on_entry(entry, 4, has_records=False)
    assert guarantee.relayed_lsn == 0
    guarantee.on_entry(entry, 6, has_records=True)
    guarantee.on_entry(entry, 9, has_records=False)
    assert guarantee.relayed_lsn == 6


def test_an_ended_transaction_is_waited_for_until_it_is_acknowledged() -> None:
    sink, ledger = sink_of(FakeProducer()), Ledger()
    guarantee = guarantee_of(sink, ledger)
    ledger.note_wal_end(5)
    entry = ledger.begin(0)
    entry.records = 1
    assert not guarantee.may_settle(refused=False)
    assert not guarantee.awaits_confirmation
    ledger.end(5)
    assert guarantee.may_settle(refused=False)
    assert guarantee.awaits_confirmation
    entry.acknowledged = 1
    ledger.advance()
    assert not guarantee.may_settle(refused=False)
    assert not guarantee.awaits_confirmation


def test_after_a_refusal_only_reports_that_may_come_are_waited_for() -> None:
    sink, ledger = sink_of(FakeProducer()), Ledger()
    guarantee = guarantee_of(sink, ledger)
    ledger.note_wal_end(5)
    entry = ledger.begin(0)
    entry.records = 2
    ledger.end(5)
    assert not guarantee.may_settle(refused=True)
    sink.produce([record("t")], 0, sink.delivery(entry, 4))
    assert guarantee.may_settle(refused=True)
    sink.failures.on_error(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    assert not guarantee.may_settle(refused=True)
