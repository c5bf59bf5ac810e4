"""What a process knows about its slot between two streams."""

from typing import Final

import pytest

from pgrelay.errors import GapError, SourceUnavailable
from pgrelay.kafka.offsets import Position
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import System
from pgrelay.postgres.timeline_history import TimelineHistory
from pgrelay.relay.resume_point import ResumePoint

CONFIRMED: Final = 0x1000
OURS: Final = 17  # PIDs of walsenders
OTHER: Final = 18
PRIMARY: Final = System("7", 1, 0x9000)


def slot(confirmed: int = CONFIRMED, active_pid: int | None = None) -> Slot:
    return Slot("pgoutput", "logical", "db", active_pid, confirmed, 1, "reserved")


@pytest.fixture
def resume_point() -> ResumePoint:
    """After a stream that confirmed 0/1000."""
    resume_point = ResumePoint()
    resume_point.adopt_slot(PRIMARY, slot(), OURS, standby=False)
    return resume_point


def test_a_slot_that_is_where_we_left_it_has_not_moved(resume_point: ResumePoint) -> None:
    """Also while the server has not yet noticed that we are gone."""
    resume_point.note_reader(slot(active_pid=OURS))
    assert not resume_point.may_have_moved(slot())
    assert resume_point.own_position == Position(CONFIRMED)
    resume_point.check_unmoved(slot())


def test_an_old_primary_is_told_as_such_though_its_wal_ends_earlier() -> None:
    promoted = ResumePoint()
    promoted.adopt_slot(System("7", 2, 0x9000), slot(), OURS, standby=False)
    with pytest.raises(
        GapError, match=r"server is on timeline 1, but .* of timeline 2: it may be an old primary"
    ):
        promoted.check_server(System("7", 1, CONFIRMED - 1), standby=False)


def test_before_the_first_stream_only_kafka_knows() -> None:
    assert ResumePoint().may_have_moved(slot())
    assert ResumePoint().own_position is None


def test_after_another_had_the_slot_it_may_have_moved_until_it_is_ours_again(
    resume_point: ResumePoint,
) -> None:
    resume_point.note_reader(slot(active_pid=OTHER))
    resume_point.note_reader(slot())
    assert resume_point.may_have_moved(slot())
    resume_point.adopt_slot(PRIMARY, slot(), OURS, standby=False)
    assert not resume_point.may_have_moved(slot())


def test_a_slot_that_is_elsewhere_has_moved(resume_point: ResumePoint) -> None:
    assert resume_point.may_have_moved(slot(CONFIRMED + 1))


def test_after_another_had_the_slot_the_stream_begins_where_that_one_stopped(
    resume_point: ResumePoint,
) -> None:
    """It may have repeated what we delivered beyond that; what follows must then come again, too."""
    resume_point.advance(CONFIRMED + 0x300, CONFIRMED)
    resume_point.follow_slot(slot())
    assert resume_point.flush_lsn == CONFIRMED + 0x300
    resume_point.note_reader(slot(active_pid=OTHER))
    resume_point.follow_slot(slot(CONFIRMED + 0x100))
    assert resume_point.flush_lsn == CONFIRMED + 0x100
    assert resume_point.relayed_lsn == resume_point.delivered_lsn == CONFIRMED + 0x300


def test_a_slot_that_another_moved_while_the_stream_began_is_followed_with_the_next(
    resume_point: ResumePoint,
) -> None:
    resume_point.advance(CONFIRMED + 0x300, CONFIRMED)
    resume_point.check_not_past(slot())
    resume_point.check_not_past(slot(CONFIRMED + 0x400))
    with pytest.raises(SourceUnavailable, match="another relay had the slot meanwhile"):
        resume_point.check_not_past(slot(CONFIRMED + 0x100))
    resume_point.follow_slot(slot(CONFIRMED + 0x100))
    assert resume_point.flush_lsn == CONFIRMED + 0x100


def test_without_positions_a_slot_moved_by_an_unseen_client_is_refused(resume_point: ResumePoint) -> None:
    with pytest.raises(GapError, match="slot stands at 0/1001, but Kafka has everything only up to 0/1000:"):
        resume_point.check_unmoved(slot(CONFIRMED + 1))
    resume_point.note_reader(slot(active_pid=OTHER))
    resume_point.check_unmoved(slot(CONFIRMED + 1))


def promoted(left_at: int) -> System:
    """A server that left timeline 1 for 2."""
    return System("7", 2, 0x9000, TimelineHistory(((1, left_at),)))


def test_a_standby_that_lacks_unacknowledged_records_is_refused(
    resume_point: ResumePoint,
) -> None:
    """The producer outlives the session, and what it holds may still be written."""
    sent = CONFIRMED + 0x100
    resume_point.advance(CONFIRMED, CONFIRMED, sent)
    resume_point.check_server(promoted(left_at=sent), standby=False)
    with pytest.raises(GapError, match="left timeline 1 at 0/10FF, before 0/1100, which we have relayed"):
        resume_point.check_server(promoted(left_at=sent - 1), standby=False)
    assert resume_point.flush_lsn == CONFIRMED  # where the next stream begins


def test_a_second_standby_promoted_from_one_timeline_is_refused() -> None:
    resume_point = ResumePoint()
    resume_point.adopt_slot(promoted(left_at=CONFIRMED - 8), slot(), OURS, standby=False)
    resume_point.check_server(promoted(left_at=CONFIRMED - 8), standby=False)
    with pytest.raises(
        GapError, match="timeline 2 began at 0/FF7, but the one that we relayed up to 0/1000 began at"
    ):
        resume_point.check_server(promoted(left_at=CONFIRMED - 9), standby=False)


def test_a_primary_that_became_a_standby_is_waited_for(
    resume_point: ResumePoint,
) -> None:
    for wal_end in 0, CONFIRMED:
        with pytest.raises(SourceUnavailable, match=r"leads to a standby.*: waiting for its promotion"):
            resume_point.check_server(System("7", 1, wal_end), standby=True)


def test_a_server_that_lost_wal_is_refused_but_a_standby_is_waited_for() -> None:
    shorter = System("7", 1, CONFIRMED - 1)
    resume_point = ResumePoint()
    resume_point.adopt_slot(PRIMARY, slot(), OURS, standby=True)
    resume_point.check_server(PRIMARY, standby=True)
    with pytest.raises(SourceUnavailable, match="the standby has not reached 0/1000"):
        resume_point.check_server(shorter, standby=True)
    with pytest.raises(GapError, match="lost WAL"):
        resume_point.check_server(shorter, standby=False)
