"""The position in Kafka is accepted only if it can be true of the server."""

from typing import Final

import pytest

from pgrelay.errors import GapError, PositionError, SourceUnavailable
from pgrelay.kafka.offsets import Position
from pgrelay.postgres.source import System
from pgrelay.postgres.timeline_history import TimelineHistory
from pgrelay.relay.gap_checks import Upstream

SLOT: Final = 0x1000
LEFT: Final = 0x3000
WAL_END: Final = 0x9000
PROMOTED: Final = TimelineHistory(((1, LEFT),))


def upstream(timeline: int | None = 2, history: TimelineHistory | None = PROMOTED) -> Upstream:
    """A server that left timeline 1 for 2; with the timeline None, a standby."""

    async def wal_end() -> int:
        return WAL_END

    primary = None if timeline is None else System("7", timeline, WAL_END, history)
    return Upstream(SLOT, wal_end, primary)


@pytest.mark.parametrize(
    "delivered",
    [
        Position(SLOT),
        Position(WAL_END),
        Position(SLOT, commit_lsn=WAL_END - 1, seq=3),
        Position(SLOT, commit_lsn=WAL_END, seq=0),
        Position(WAL_END, timeline=2),
        Position(WAL_END, timeline=2, timeline_began=LEFT),
        Position(LEFT, timeline=2, timeline_began=LEFT + 8),
        Position(LEFT - 8, timeline=2, timeline_began=LEFT - 8),
        Position(LEFT, timeline=1),
        Position(SLOT, commit_lsn=LEFT - 1, seq=3, timeline=1),
    ],
)
async def test_a_position_between_the_slot_and_the_end_of_wal_is_accepted(delivered: Position) -> None:
    await upstream().check(delivered)


async def test_a_slot_ahead_of_the_position_was_moved_or_recreated() -> None:
    with pytest.raises(GapError, match="slot stands at 0/1000, but Kafka has everything only up to 0/FFF:"):
        await upstream().check(Position(SLOT - 1))


async def test_a_server_whose_wal_ends_before_the_position_was_restored() -> None:
    with pytest.raises(GapError, match="server's WAL ends at 0/9000: it was restored from a backup"):
        await upstream().check(Position(WAL_END + 1))


async def test_a_standby_promoted_without_everything_relayed_is_refused() -> None:
    with pytest.raises(GapError, match="left timeline 1 at 0/3000, before 0/3001, which we have relayed"):
        await upstream().check(Position(LEFT + 1, timeline=1))


async def test_a_standby_that_lacks_the_commit_of_a_cut_transaction_is_refused() -> None:
    """Its commit begins where the standby's copy of the timeline ended."""
    with pytest.raises(GapError, match="left timeline 1 at 0/3000, before 0/3001, which we have relayed"):
        await upstream().check(Position(SLOT, commit_lsn=LEFT, seq=3, timeline=1))
    with pytest.raises(GapError, match="server's WAL ends at 0/9000: it was restored from a backup"):
        await upstream().check(Position(SLOT, commit_lsn=WAL_END, seq=3))


async def test_a_server_that_was_never_on_the_timeline_is_refused() -> None:
    with pytest.raises(GapError, match="left timeline 1 before 0/2000"):
        await upstream(3, TimelineHistory(((2, LEFT),))).check(Position(0x2000, timeline=1))


async def test_an_old_primary_is_told_as_such_though_its_wal_ends_earlier() -> None:
    """As it usually does: it would pass for a server that was restored from a backup."""
    with pytest.raises(
        GapError, match=r"server is on timeline 1, but .* of timeline 2: it may be an old primary"
    ):
        await upstream(1, TimelineHistory(())).check(Position(WAL_END + 1, timeline=2, timeline_began=LEFT))


@pytest.mark.parametrize("began", [LEFT - 8, LEFT + 8], ids=["before", "after"])
async def test_a_second_standby_promoted_from_one_timeline_is_refused(began: int) -> None:
    """Both call their timeline 2, and the WAL after the earlier promotion differs."""
    relayed = min(began, LEFT) + 1
    expected = (
        f"timeline 2 began at 0/3000, but the one that we relayed up to 0/{relayed:X} "
        f"began at 0/{began:X}: another"
    )
    with pytest.raises(GapError, match=expected):
        await upstream().check(Position(relayed, timeline=2, timeline_began=began))
    since = TimelineHistory(((1, LEFT), (2, WAL_END)))
    with pytest.raises(GapError, match=expected):
        await upstream(3, since).check(Position(relayed, timeline=2, timeline_began=began))


async def test_a_missing_history_file_matters_only_after_a_timeline_change() -> None:
    lacking = upstream(history=None)
    await lacking.check(Position(WAL_END, timeline=2, timeline_began=LEFT))
    with pytest.raises(
        PositionError, match=r"lacks the file pg_wal/00000002\.history, .* left timeline 1 \(we have"
    ):
        await lacking.check(Position(SLOT, timeline=1))


def test_a_position_names_its_timeline() -> None:
    assert upstream().position(5) == Position(5, timeline=2, timeline_began=LEFT)
    assert upstream(1, TimelineHistory()).position(5, 7, 1) == Position(5, 7, 1, timeline=1)
    assert upstream(history=None).position(5) == Position(5, timeline=2)
    assert upstream(None).position(5) == Position(5)


async def test_an_old_primary_that_still_runs_is_refused_as_one() -> None:
    with pytest.raises(
        GapError, match="on timeline 1, but we have relayed up to 0/2000 of timeline 2: it may"
    ):
        await upstream(1, TimelineHistory()).check(Position(0x2000, timeline=2, timeline_began=LEFT))


async def test_a_standby_that_has_not_reached_the_position_is_waited_for() -> None:
    """After a crash it accepts connections before it has replayed all its WAL again."""
    with pytest.raises(SourceUnavailable, match="the standby has not reached 0/9001, which we have relayed"):
        await upstream(timeline=None).check(Position(WAL_END + 1))


async def test_the_timeline_of_a_standby_is_not_checked() -> None:
    await upstream(timeline=None).check(Position(LEFT + 1, timeline=1))


async def test_a_slot_that_was_moved_is_told_before_a_history_that_is_missing() -> None:
    """The cure of the latter would hide what the slot has passed over."""
    with pytest.raises(GapError, match="the slot was moved or re-created"):
        await upstream(timeline=3, history=None).check(Position(SLOT - 1, timeline=2))
