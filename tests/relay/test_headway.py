"""Whether sessions get anywhere: after the disk of the spool was full, or one after the other ended soon."""

from pathlib import Path

import pytest

from pgrelay.errors import KafkaUnavailable, SourceUnavailable, SpoolError
from pgrelay.relay.headway import Headway
from tests.clock import Clock
from tests.relay.observed import FakeSession, SpoolSession

TROUBLE = KafkaUnavailable("our clock differs")


def turns(headway: Headway, session: FakeSession, clock: Clock, seconds: int) -> list[str]:
    """A turn each second; what was to be logged."""
    logged: list[str] = []
    for _ in range(seconds):
        clock.now += 1
        if (over := headway.on_turn(session)) is not None:
            logged.append(over)
    return logged


@pytest.fixture
def headway(clock: Clock) -> Headway:
    return Headway()


@pytest.fixture
def spool_failed(headway: Headway, tmp_path: Path) -> None:
    """The spool's disk was full at row 34, in the second segment."""
    session = SpoolSession(tmp_path / "failed", range(10, 20), range(20, 35))
    headway.on_begin(session)
    for _ in range(3):
        headway.on_end(session, SpoolError("the disk is full"))


@pytest.mark.usefixtures("spool_failed")
@pytest.mark.parametrize(
    ("segments", "over"),
    [
        pytest.param([range(10, 18)], False, id="less"),
        pytest.param([range(10, 25)], False, id="as much in one segment"),
        pytest.param([range(10, 30), range(30, 33)], False, id="a later segment, but no more of it"),
        pytest.param([range(10, 30), range(30, 36)], True, id="more"),
    ],
)
def test_a_full_spool_is_over_once_more_of_the_transaction_is_held(
    headway: Headway, clock: Clock, tmp_path: Path, segments: list[range], over: bool
) -> None:
    """Each connection's segments are others: one may begin later than that in which the disk was full."""
    session = SpoolSession(tmp_path / "again", *segments)
    headway.on_begin(session)
    assert headway.blocker == "the disk is full"
    assert turns(headway, session, clock, 3) == ["the spool has room again"] * over
    assert (headway.blocker is None) == over


@pytest.mark.usefixtures("spool_failed")
def test_a_full_spool_is_over_if_the_transaction_was_rolled_back(
    headway: Headway, clock: Clock, tmp_path: Path
) -> None:
    session = SpoolSession(tmp_path / "again")
    headway.on_begin(session)
    session.ledger.note_wal_end(40)
    for lsn, over in (19, False), (40, True):
        session.ledger.enter_position(lsn)
        session.ledger.advance()
        assert bool(turns(headway, session, clock, 1)) == over


def test_sessions_that_end_soon_one_after_the_other_are_no_stream(headway: Headway, clock: Clock) -> None:
    """As when Kafka refuses the first record of each: what ended them still holds."""
    for number in range(4):
        session = FakeSession()
        headway.on_begin(session)
        turns(headway, session, clock, 2)
        assert headway.blocker == (str(TROUBLE) if number >= 2 else None)
        headway.on_end(session, TROUBLE)
    session = FakeSession()
    headway.on_begin(session)
    assert turns(headway, session, clock, 9) == []
    assert turns(headway, session, clock, 1) == ["streaming again"]
    assert headway.blocker is None


def test_a_session_that_gets_further_streams_again_at_once(headway: Headway, clock: Clock) -> None:
    for _ in range(2):
        session = FakeSession()
        headway.on_begin(session)
        headway.on_end(session, TROUBLE)
    session = FakeSession()
    headway.on_begin(session)
    session.ledger.note_wal_end(40)
    session.ledger.enter_position(40)
    session.ledger.advance()
    assert turns(headway, session, clock, 1) == ["streaming again"]


def test_a_session_that_has_lasted_may_end_without_doubt_about_the_next(
    headway: Headway, clock: Clock
) -> None:
    for _ in range(3):
        session = FakeSession()
        headway.on_begin(session)
        turns(headway, session, clock, 60)
        headway.on_end(session, SourceUnavailable("Postgres cut the connection"))
        assert headway.blocker is None


def test_a_slow_end_makes_no_session_a_stream(headway: Headway, clock: Clock) -> None:
    for _ in range(3):
        session = FakeSession()
        headway.on_begin(session)
        turns(headway, session, clock, 1)
        clock.now += 30
        headway.on_end(session, TROUBLE)
    assert headway.blocker is not None
