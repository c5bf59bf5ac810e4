"""What this process knows from its earlier streams, held against the server that it meets now."""

from pgrelay.errors import BEGIN_ANEW, GapError
from pgrelay.kafka.offsets import Delivered
from pgrelay.postgres.catalog import Slot
from pgrelay.postgres.source import Source, System
from pgrelay.relay.recall import check_reached, check_received, check_skips_nothing, unpromoted


class Known:
    """What this process knows of the stream: nothing at first, then the cluster and how far it has come."""

    def __init__(self) -> None:
        self.system: System | None = None
        self.flush_lsn = 0
        self.confirmed_lsn = 0
        self._standby = False
        self._walsender_pid: int | None = None
        self._taken_over = False

    @property
    def delivered(self) -> Delivered | None:
        """What this process knows to be in Kafka, whatever Kafka says; None before the first stream."""
        return None if self.system is None else Delivered(self.confirmed_lsn)

    def check_cluster(self, system: System, standby: bool) -> None:
        """Refuse to go on with another cluster, or with this one as it was. Raises GapError.

        `standby`: the server is one. SourceUnavailable where it is still to become what we streamed from.
        """
        if self.system is None:
            return
        if system.systemid != self.system.systemid:
            raise GapError(
                f"source.dsn leads to cluster {system.systemid} now, it was {self.system.systemid}: "
                f"point it at the old one, or {BEGIN_ANEW}"
            )
        if standby and not self._standby:
            raise unpromoted("and we have streamed from its primary")
        check_reached(self.flush_lsn, system.wal_end, standby)

    async def check_history(self, system: System, source: Source) -> None:
        """Refuse a standby that was promoted before it had all that we have relayed. Raises GapError.

        A standby that we read from goes to another timeline under our eyes, and its slots are its own.
        """
        if self.system is None or self._standby or self.system.timeline == system.timeline:
            return
        left_at = await source.left_at(self.system.timeline, system.timeline)
        check_received(self.system.timeline, self.flush_lsn, system.timeline, left_at)

    def check_slot(self, slot: Slot, name: str) -> None:
        """Refuse to go on where nobody can. Raises GapError."""
        if (why := slot.lost_because) is not None:
            raise GapError(f"slot {name} is lost, {why}: {BEGIN_ANEW}")

    def seen(self, slot: Slot) -> None:
        """Take in who has the slot now."""
        if slot.active_pid not in (None, self._walsender_pid):
            self._taken_over = True

    def leaves_open(self, slot: Slot) -> bool:
        """Whether someone else may have moved the slot: what was delivered by then, Kafka alone can tell."""
        moved = (slot.confirmed_flush_lsn or 0) > self.confirmed_lsn
        return self.system is None or self._taken_over or moved

    def check_unmoved(self, slot: Slot) -> None:
        """Where Kafka keeps no positions: refuse to go on where the slot skips changes. Raises GapError."""
        # Else another relay moved it, as far as anybody can tell, and as it should.
        if self.system is not None and not self._taken_over:
            check_skips_nothing(slot.confirmed_flush_lsn or 0, self.confirmed_lsn)

    def started(self, system: System, slot: Slot, walsender_pid: int, standby: bool) -> None:
        """The slot is ours. It was not before the first time, so only now does its position mean anything.

        `standby`: the server is one.
        """
        self.moved(slot.confirmed_flush_lsn or 0, slot.confirmed_flush_lsn or 0)
        self.system = system
        self._standby = standby
        self._walsender_pid = walsender_pid
        self._taken_over = False

    def moved(self, flush_lsn: int, confirmed_lsn: int) -> None:
        self.flush_lsn = max(self.flush_lsn, flush_lsn)
        self.confirmed_lsn = max(self.confirmed_lsn, confirmed_lsn)
