"""Refuses to stream if changes would be missing: checks Kafka's position against the slot and the server.

The order matters, because another relay may be using the slot meanwhile: first the slot's position is read,
then Kafka's, and last the end of the server's WAL.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pgrelay.errors import RESET_CURE, GapError, PositionError, StandbyNotReady
from pgrelay.kafka.offsets import Position
from pgrelay.lsn import format_lsn
from pgrelay.postgres.source import System


@dataclass(frozen=True, slots=True)
class Upstream:
    """What a position is checked against: the slot, and the server's WAL and timelines.

    `slot_lsn` is the slot's confirmed position; `wal_end` asks where WAL ends now. `primary` is None on a
    standby. `numbering` is the digest of the settings that a position is kept with.
    """

    slot_lsn: int
    wal_end: Callable[[], Awaitable[int]]
    primary: System | None
    numbering: str | None = None

    def position(self, lsn: int, commit_lsn: int | None = None, seq: int | None = None) -> Position:
        """A position of this server's stream."""
        timeline = began = None
        if self.primary is not None:
            timeline, began = self.primary.timeline, began_at(self.primary)
        return Position(lsn, commit_lsn, seq, timeline, began, self.numbering)

    async def check(self, position: Position) -> None:
        """Raises GapError if the position can't be true of this server and its slot.

        Raises StandbyNotReady if the server is a standby that has not replayed that far yet; PositionError if
        only the history of its timeline could tell, and the server lacks it.
        """
        check_end(self.primary, await self.wal_end(), position.min_wal_end, position.timeline)
        check_skips_nothing(self.slot_lsn, position.lsn)
        check_history(self.primary, position.min_wal_end, position.timeline, position.timeline_began)

    async def check_further(self, kept: Position | None, known: Position | None) -> None:
        """Check the higher of Kafka's position, `kept`, and what this process has delivered, `known`.

        Raises as `check`.
        """
        further = known if known is not None and (kept is None or kept.lsn < known.lsn) else kept
        if further is not None:
            await self.check(further)


def check_end(primary: System | None, wal_end: int, relayed_lsn: int, timeline: int | None) -> None:
    """Refuse a server whose WAL ends before what was relayed, or that is on an earlier timeline.

    `primary` is None if it is a standby; `timeline` is the one that we relayed from, None if a standby's.
    Raises GapError, StandbyNotReady.
    """
    # Checked before the end of WAL, by which an old primary would look like one restored from a backup.
    if primary is not None and timeline is not None and primary.timeline < timeline:
        raise GapError(
            f"the server is on timeline {primary.timeline}, but we have relayed up to "
            f"{format_lsn(relayed_lsn)} of timeline {timeline}: it may be an old primary that a promoted "
            f"standby replaced; point source.dsn at the new primary, or {RESET_CURE}"
        )
    if relayed_lsn <= wal_end:
        return
    if primary is None:
        # After a crash, a standby replays its WAL again.
        raise StandbyNotReady(
            f"the standby has not reached {format_lsn(relayed_lsn)}, which we have relayed: waiting for it; "
            f"if it was restored from a backup, {RESET_CURE}"
        )
    raise GapError(
        f"Kafka has everything up to {format_lsn(relayed_lsn)}, but the server's WAL ends at "
        f"{format_lsn(wal_end)}: it was restored from a backup, or lost WAL; {RESET_CURE}"
    )


def check_skips_nothing(slot_lsn: int, delivered_lsn: int) -> None:
    """Refuse a slot that stands past what is known to be delivered. Raises GapError."""
    if slot_lsn > delivered_lsn:
        raise GapError(
            f"the slot stands at {format_lsn(slot_lsn)}, but Kafka has everything only up to "
            f"{format_lsn(delivered_lsn)}: the slot was moved or re-created, and the changes in between are "
            f"lost, unless whoever moved it relayed them (then: pgrelay reset --keep-slot); {RESET_CURE}"
        )


def standby_error(found: str) -> StandbyNotReady:
    """The error for a standby found in place of the primary; `found` says how that shows."""
    return StandbyNotReady(
        f"source.dsn leads to a standby, {found}: waiting for its promotion; if source.dsn names several "
        "hosts, add target_session_attrs=read-write"
    )


def began_at(primary: System) -> int | None:
    """The LSN at which a server's timeline branched off the previous one; None if unknown, or the first."""
    return None if primary.history is None else primary.history.began_at(primary.timeline)


def check_history(primary: System | None, relayed_lsn: int, timeline: int | None, began: int | None) -> None:
    """Refuse a server that never received all that was relayed. Arguments are those of `check_end`.

    The length of its WAL proves nothing: it may have written other changes at the same LSNs since. `began` is
    where the timeline branched off the previous one, None if unknown. It is needed because two standbys that
    are promoted from one timeline begin different timelines of the same number. Raises GapError,
    PositionError.
    """
    if primary is None or timeline is None:
        return
    now, history = primary.timeline, primary.history
    if history is None:
        if now == timeline:
            return
        raise PositionError(
            f"the server lacks the file pg_wal/{now:08X}.history, which says where it left timeline "
            f"{timeline} (we have relayed that up to {format_lsn(relayed_lsn)}); restore the file from the "
            "archive or another server, or, if the server is known to have received that much, run pgrelay "
            "reset --keep-slot"
        )
    left_at = history.left_at(timeline)
    if now > timeline and (left_at is None or relayed_lsn > left_at):
        place = "before" if left_at is None else f"at {format_lsn(left_at)}, before"
        raise GapError(
            f"the server left timeline {timeline} {place} {format_lsn(relayed_lsn)}, which we have relayed: "
            f"the standby that was promoted had not received it; {RESET_CURE}"
        )
    branched = history.began_at(timeline)
    if began is None or branched in (None, began) or relayed_lsn <= min(began, branched):
        return
    raise GapError(
        f"the server's timeline {timeline} began at {format_lsn(branched)}, but the one that we relayed up "
        f"to {format_lsn(relayed_lsn)} began at {format_lsn(began)}: another standby was promoted there; "
        f"point source.dsn at the one that we streamed from, or {RESET_CURE}"
    )
