"""When a Kafka transaction is committed, what it covers, and which position holds after a crash."""

from typing import Final, cast

import pytest
from confluent_kafka import KafkaError

from pgrelay.errors import GapError, KafkaUnavailable, SourceUnavailable
from pgrelay.kafka.offsets import Position
from pgrelay.progress import Ledger
from pgrelay.relay.exactly_once import ExactlyOnce, ExactlyOnceMode
from pgrelay.relay.resume_point import ResumePoint
from pgrelay.relay.server import Server
from tests.clock import Clock
from tests.encode.encoding import OPTIONS, encoder_of, transaction
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import FakeOffsets, transactions_of
from tests.relay.relaying import (
    FIRST,
    SECOND,
    SLOT,
    SPOOL,
    THIRD,
    TIMEOUT_S,
    WAL_END,
    Relaying,
    assembler,
    begun,
    rest,
    rows,
    upstream,
)
from tests.relay.test_at_least_once import FakeServer
from tests.relay.test_resume_point import CONFIRMED, OURS, PRIMARY, slot

BEYOND: Final = "the slot stands at 0/1000, but Kafka has everything only up to 0/FFF"


async def test_a_slot_that_moves_as_the_stream_begins_is_held_against_what_we_have_delivered() -> None:
    """Kafka has no position. The resume point has adopted the slot's by then."""
    resume_point, server = ResumePoint(), cast(Server, FakeServer())
    resume_point.adopt_slot(PRIMARY, slot(), OURS, standby=False)
    mode = ExactlyOnceMode(transactions_of(FakeProducer()), resume_point)
    await mode.check_against_kafka(server, slot())
    moved = slot(CONFIRMED + 8)
    resume_point.adopt_slot(PRIMARY, moved, OURS, standby=False)
    guarantee = mode.guarantee(server, moved, Ledger(), assembler(SPOOL), encoder_of())
    with pytest.raises(GapError, match="the slot was moved or re-created"):
        await guarantee.recover()


# --- When a commit is due


def test_no_commit_is_due_before_anything_has_come(clock: Clock) -> None:
    relaying = Relaying()
    clock.now += 3600
    assert not relaying.commits.may_settle(refused=False)
    assert not relaying.commits.is_due(nothing_else=True)


def test_a_commit_is_due_as_soon_as_there_is_nothing_else_to_do(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    assert relaying.commits.may_settle(refused=False)
    assert relaying.commits.is_due(nothing_else=True)
    assert not relaying.commits.is_due(nothing_else=False)


def test_a_commit_that_is_due_wants_the_end_of_a_postgres_transaction(clock: Clock) -> None:
    relaying = Relaying()
    assert not relaying.commits.wants_boundary
    relaying.take(rows(FIRST) + begun(SECOND, 1))
    assert not relaying.commits.wants_boundary
    clock.now += 0.25
    assert relaying.commits.wants_boundary
    assert not relaying.commits.is_due(nothing_else=False)


def test_what_has_no_records_wants_a_boundary_later(clock: Clock) -> None:
    """Otherwise large transactions of tables that are left out would keep the slot where it is."""
    relaying = Relaying()
    relaying.reach(0x1100)
    relaying.take(begun(FIRST, 0))
    clock.now += 0.99
    assert not relaying.commits.wants_boundary
    clock.now += 0.01
    assert relaying.commits.wants_boundary


def test_under_load_a_commit_is_due_every_quarter_of_a_second(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    clock.now += 0.24
    relaying.take(rows(SECOND))
    assert not relaying.commits.is_due(nothing_else=False)
    clock.now += 0.01
    assert relaying.commits.is_due(nothing_else=False)


async def test_after_a_commit_none_is_due_until_something_comes(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    await relaying.commit()
    clock.now += 3600
    assert not relaying.commits.may_settle(refused=False)
    assert not relaying.commits.is_due(nothing_else=True)
    relaying.take(rows(SECOND))
    assert not relaying.commits.is_due(nothing_else=False)


def test_within_a_transaction_a_commit_is_due_after_a_quarter_of_the_timeout(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    relaying.take(begun(SECOND, 3))
    clock.now += TIMEOUT_S / 4 - 0.01
    assert not relaying.commits.is_due(nothing_else=True)
    clock.now += 0.01
    assert relaying.commits.is_due(nothing_else=False)


async def test_a_long_transaction_is_cut_repeatedly(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(begun(FIRST, 3))
    for _ in range(3):
        clock.now += TIMEOUT_S / 4 - 0.01
        assert not relaying.commits.is_due(nothing_else=False)
        clock.now += 0.01
        assert relaying.commits.is_due(nothing_else=False)
        await relaying.commit()
    relaying.take(rest(FIRST, 1))
    assert relaying.commits.is_due(nothing_else=True)


async def test_positions_alone_are_committed_once_a_second_when_idle(clock: Clock) -> None:
    relaying = Relaying()
    relaying.reach(0x2000)
    assert relaying.commits.is_due(nothing_else=True)
    assert not relaying.commits.is_due(nothing_else=False)
    await relaying.commit()
    relaying.reach(0x2100)
    clock.now += 0.9
    relaying.reach(0x2200)
    assert not relaying.commits.is_due(nothing_else=True)
    clock.now += 0.1
    assert relaying.commits.is_due(nothing_else=True)
    assert await relaying.commit() == Position(0x2200)


@pytest.mark.parametrize(("nothing_else", "commits"), [(True, 4), (False, 3)], ids=["idle", "under load"])
async def test_transactions_without_records_are_committed_together(
    clock: Clock, nothing_else: bool, commits: int
) -> None:
    """500 a second, as of tables that are left out: a commit a second moves the slot past them."""
    relaying = Relaying()
    for number in range(2_000):
        relaying.take(transaction(commit_lsn=FIRST + 16 * number))
        if relaying.commits.is_due(nothing_else):
            await relaying.commit()
        clock.now += 1 / 500
    assert len(relaying.kafka.committed) == commits
    assert relaying.confirmable > FIRST + 16 * 1_490


async def test_a_commit_of_records_covers_earlier_transactions_without_records(clock: Clock) -> None:
    relaying = Relaying()
    relaying.reach(0x1100)
    await relaying.commit()
    relaying.take(transaction(commit_lsn=FIRST))
    assert not relaying.commits.is_due(nothing_else=True)
    relaying.take(rows(SECOND))
    assert relaying.commits.is_due(nothing_else=True)
    assert await relaying.commit() == Position(SECOND + 8)


async def test_a_position_does_not_delay_a_transactions_commit(clock: Clock) -> None:
    relaying = Relaying()
    relaying.reach(0x1100)
    await relaying.commit()
    relaying.reach(0x1200)
    relaying.take(rows(FIRST))
    assert relaying.commits.is_due(nothing_else=True)


# --- What a commit covers


async def test_a_commit_covers_everything_that_has_ended(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    relaying.take(rows(SECOND))
    relaying.reach(0x3000)
    assert await relaying.commit() == Position(0x3000)


async def test_nothing_is_confirmable_before_kafka_has_committed_it(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    relaying.reach(0x2000)
    assert relaying.confirmable == SLOT
    await relaying.commit()
    assert relaying.confirmable == 0x2000
    relaying.reach(0x2100)
    relaying.reach(0x2200)
    assert relaying.confirmable == 0x2000
    await relaying.commit()
    assert relaying.confirmable == 0x2200


async def test_a_position_that_advances_after_a_commit_waits_for_the_next(
    clock: Clock,
) -> None:
    relaying = Relaying()
    relaying.reach(0x2000)
    await relaying.commit()
    relaying.reach(0x2100)  # the same entry, since nothing has advanced yet
    assert relaying.confirmable == SLOT
    await relaying.commit()
    assert relaying.confirmable == 0x2100


async def test_a_failed_commit_covers_nothing(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    relaying.kafka.error = KafkaError(KafkaError._FENCED)
    with pytest.raises(KafkaUnavailable):
        await relaying.commits.commit()
    assert relaying.commits.may_settle(refused=False)
    assert relaying.confirmable == SLOT


async def test_within_a_transaction_the_position_names_its_commit_lsn_and_seq(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    relaying.take(begun(SECOND, 3))
    assert await relaying.commit() == Position(FIRST + 8, SECOND, 3)
    assert relaying.confirmable == FIRST + 8
    relaying.take(rest(SECOND, 2))
    assert relaying.confirmable == FIRST + 8
    assert await relaying.commit() == Position(SECOND + 8)
    assert relaying.confirmable == SECOND + 8


def test_only_whole_transactions_settle_and_none_behind_a_refused_record(clock: Clock) -> None:
    relaying = Relaying()
    relaying.take(rows(FIRST))
    assert relaying.commits.may_settle(refused=False)
    assert not relaying.commits.may_settle(refused=True)
    relaying.take(begun(SECOND, 1))
    assert not relaying.commits.may_settle(refused=False)
    relaying.take(rest(SECOND, 1))
    assert relaying.commits.may_settle(refused=False)


async def test_a_position_alone_is_not_awaited(clock: Clock) -> None:
    relaying = Relaying()
    relaying.reach(0x1100)
    assert not relaying.commits.awaits_confirmation
    relaying.take(rows(FIRST))
    assert relaying.commits.awaits_confirmation
    await relaying.commit()
    assert not relaying.commits.awaits_confirmation


# --- After a crash


async def test_nothing_is_skipped_if_nothing_was_delivered(clock: Clock) -> None:
    relaying = Relaying(None)
    await relaying.commits.recover()
    assert relaying.take(rows(FIRST, 2)) == [0, 1]


async def test_recovery_tells_the_assembler_what_was_delivered() -> None:
    relaying = Relaying(Position(FIRST + 8))
    assert relaying.commits.recovering
    await relaying.commits.recover()
    assert not relaying.commits.recovering
    assert relaying.assembler.delivered_lsn == FIRST + 8


async def test_delivered_changes_are_skipped_and_still_confirmed(clock: Clock) -> None:
    relaying = Relaying(Position(FIRST + 8, SECOND, 2))
    await relaying.commits.recover()
    assert relaying.take(rows(FIRST, 4)) == []
    assert relaying.take(rows(SECOND, 4)) == [2, 3]
    assert relaying.take(rows(THIRD, 2)) == [0, 1]
    assert await relaying.commit() == Position(THIRD + 8)
    assert relaying.confirmable == THIRD + 8


async def test_a_position_beyond_the_end_of_wal_is_refused() -> None:
    """test_gap_checks.py tests the other reasons. Here the server is a standby."""
    relaying = Relaying(Position(WAL_END + 1))
    with pytest.raises(SourceUnavailable, match="the standby has not reached 0/9001"):
        await relaying.commits.recover()


async def test_the_end_of_wal_is_queried_after_the_position() -> None:
    """The relay that had the slot before may have gone on delivering until we got it."""
    offsets, ledger, encoder = FakeOffsets(), Ledger(SLOT), encoder_of(OPTIONS)
    asked: list[Position | None] = []

    async def wal_end() -> int:
        asked.append(offsets.delivered)
        return WAL_END

    server, sink = upstream(SLOT, wal_end), transactions_of(FakeProducer(), offsets)
    commits = ExactlyOnce(sink, ledger, assembler(SPOOL), encoder, server, None)
    offsets.delivered = Position(WAL_END)
    await commits.recover()
    assert asked == [Position(WAL_END)]


async def test_a_slot_ahead_of_the_position_is_refused() -> None:
    relaying = Relaying(Position(SLOT - 1))
    with pytest.raises(GapError, match=BEYOND):
        await relaying.commits.recover()


async def test_without_a_position_in_kafka_a_slot_ahead_of_what_we_know_is_refused() -> None:
    """Nothing was written since the slot was made, so no commit told where it stood; this process knows."""
    relaying = Relaying(None, slot_lsn=SLOT, known=Position(SLOT - 1))
    with pytest.raises(GapError, match=BEYOND):
        await relaying.commits.recover()


async def test_a_position_in_kafka_outweighs_what_this_process_knows() -> None:
    """Another relay had the slot meanwhile, and moved it as it should."""
    relaying = Relaying(Position(WAL_END), known=Position(SLOT - 1))
    await relaying.commits.recover()
    assert relaying.assembler.delivered_lsn == WAL_END
    relaying.reach(SLOT)
    assert await relaying.commit() == Position(WAL_END)


@pytest.mark.parametrize("delivered", [Position(SLOT), Position(WAL_END)])
async def test_positions_between_the_slot_and_the_end_of_wal_are_accepted(delivered: Position) -> None:
    relaying = Relaying(delivered)
    await relaying.commits.recover()
    relaying.reach(WAL_END)
    assert await relaying.commit() == Position(WAL_END)


# --- A position never goes back


async def test_repeated_transactions_do_not_move_the_position_back(clock: Clock) -> None:
    relaying = Relaying(Position(SECOND + 8))
    await relaying.commits.recover()
    relaying.take(rows(FIRST))
    assert await relaying.commit() == Position(SECOND + 8)


async def test_a_cut_is_kept_until_its_transaction_comes_again(clock: Clock) -> None:
    """Otherwise a second crash would duplicate the records that were already delivered."""
    cut = Position(FIRST + 8, SECOND, 2)
    relaying = Relaying(cut)
    await relaying.commits.recover()
    relaying.reach(0x1100)
    assert await relaying.commit() == cut
    relaying.take(begun(FIRST, 1))
    assert await relaying.commit() == cut
    relaying.take(rest(FIRST, 1))
    assert await relaying.commit() == cut
    relaying.reach(0x2000)
    assert await relaying.commit() == Position(0x2000, SECOND, 2)


async def test_a_cut_does_not_move_back_while_its_transaction_comes_again(clock: Clock) -> None:
    relaying = Relaying(Position(FIRST + 8, SECOND, 3))
    await relaying.commits.recover()
    relaying.take(begun(SECOND, 1))
    assert await relaying.commit() == Position(FIRST + 8, SECOND, 3)
    relaying.take(rest(SECOND, 4)[:-1])
    assert await relaying.commit() == Position(FIRST + 8, SECOND, 5)
    relaying.take(rest(SECOND, 1))
    assert await relaying.commit() == Position(SECOND + 8)


async def test_a_cut_in_the_next_transaction_replaces_the_last_one(clock: Clock) -> None:
    relaying = Relaying(Position(FIRST + 8, SECOND, 3))
    await relaying.commits.recover()
    relaying.take(rows(SECOND, 4))
    relaying.take(begun(THIRD, 1))
    assert await relaying.commit() == Position(SECOND + 8, THIRD, 1)
