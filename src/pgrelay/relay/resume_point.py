"""Where this process's next stream begins, and whether the server can go on from there."""

from pgrelay.errors import RESET_CURE, GapError, SourceUnavailable
from pgrelay.kafka.offsets import Position
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import System
from pgrelay.relay.gap_checks import began_at, check_end, check_history, check_skips_nothing, standby_error


class ResumePoint:
    """How far this process's earlier streams came, and on which cluster; `system` is None before the first.

    `flush_lsn` is where the next stream begins, `confirmed_lsn` what was last confirmed to the server.
    `relayed_lsn` is how far the records reach that consumers may have, acknowledged or not. `delivered_lsn`
    is the LSN up to which everything is in Kafka, including what other relays delivered.
    """

    def __init__(self) -> None:
        self.system: System | None = None
        self.flush_lsn = 0
        self.confirmed_lsn = 0
        self.relayed_lsn = 0
        self.delivered_lsn = 0
        self._standby = False
        self._walsender_pid: int | None = None
        self._taken_over = False

    @property
    def own_position(self) -> Position | None:
        """What this process has delivered, whatever Kafka's topic says; None before the first stream."""
        return None if self.system is None else Position(self.confirmed_lsn)

    def check_server(self, system: System, standby: bool) -> None:
        """Refuse another cluster, or this one in an earlier or another state. Raises GapError, PositionError.

        `standby`: the server is one. Raises SourceUnavailable if we streamed from its primary, since the
        standby may yet be promoted. If we streamed from a standby itself, it may have been promoted: its
        slots are its own, and stay valid.
        """
        if self.system is None:
            return
        if system.systemid != self.system.systemid:
            raise GapError(
                f"source.dsn leads to cluster {system.systemid} now, but led to {self.system.systemid}; "
                f"point it at the old one, or {RESET_CURE}"
            )
        if standby and not self._standby:
            raise standby_error("and we have streamed from its primary")
        timeline = None if self._standby else self.system.timeline
        primary = None if standby else system
        check_end(primary, system.wal_end, self.relayed_lsn, timeline)
        check_history(primary, self.relayed_lsn, timeline, began_at(self.system))

    def note_reader(self, slot: Slot) -> None:
        """Note if another process is reading the slot now."""
        if slot.active_pid not in (None, self._walsender_pid):
            self._taken_over = True

    def may_have_moved(self, slot: Slot) -> bool:
        """Whether someone else may have moved the slot. Then only Kafka knows what was delivered."""
        moved = (slot.confirmed_flush_lsn or 0) > self.confirmed_lsn
        return self.system is None or self._taken_over or moved

    def follow_slot(self, slot: Slot) -> None:
        """If someone else may have moved the slot, begin where it stands, even if we had come further.

        Another relay may have repeated what we had delivered, and consumers then need what follows that.
        """
        if self.may_have_moved(slot):
            self.flush_lsn = slot.confirmed_flush_lsn or 0

    def check_not_past(self, slot: Slot) -> None:
        """Refuse a stream that began past a slot that was moved just before. Raises SourceUnavailable."""
        if self.may_have_moved(slot) and self.flush_lsn > (slot.confirmed_flush_lsn or 0):
            raise SourceUnavailable("another relay had the slot meanwhile; beginning where that stopped")

    def check_unmoved(self, slot: Slot) -> None:
        """If Kafka keeps no positions: refuse a slot that would skip changes. Raises GapError."""
        # If another process had the slot, we must assume that it relayed what it confirmed.
        if self.system is not None and not self._taken_over:
            check_skips_nothing(slot.confirmed_flush_lsn or 0, self.confirmed_lsn)

    def adopt_slot(self, system: System, slot: Slot, walsender_pid: int, standby: bool) -> None:
        """The stream has begun, so nobody else can move the slot: adopt its position.

        `standby`: the server is one.
        """
        self.advance(slot.confirmed_flush_lsn or 0, slot.confirmed_flush_lsn or 0)
        self.system = system
        self._standby = standby
        self._walsender_pid = walsender_pid
        self._taken_over = False

    def adopt_position(self, kept: Position | None) -> None:
        """Adopt a position that Kafka has kept and that fits the server."""
        if kept is not None:
            self.delivered_lsn = max(self.delivered_lsn, kept.lsn)

    def advance(self, flush_lsn: int, confirmed_lsn: int, relayed_lsn: int = 0) -> None:
        """Note that a stream came this far."""
        self.flush_lsn = max(self.flush_lsn, flush_lsn)
        self.confirmed_lsn = max(self.confirmed_lsn, confirmed_lsn)
        self.relayed_lsn = max(self.relayed_lsn, self.flush_lsn, relayed_lsn)
        self.delivered_lsn = max(self.delivered_lsn, self.flush_lsn)
