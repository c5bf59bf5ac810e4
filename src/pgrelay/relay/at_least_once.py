"""At least once: a record is delivered once Kafka acknowledges it; after a crash, some come again."""

import math
from collections.abc import Callable
from typing import Final

from pgrelay.assembly.assembler import Assembler
from pgrelay.encode.encoder import Encoder
from pgrelay.errors import SetupError
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.slots import Slot
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.numbering import RENUMBERED, RENUMBERED_CURE, RENUMBERED_WHY, renumbers
from pgrelay.relay.positions import Positions
from pgrelay.relay.resume_point import ResumePoint
from pgrelay.relay.server import Server
from pgrelay.relay.stored_position import read_or_init_position


class AtLeastOnceMode:
    """The `DeliveryMode` of a sink without transactions.

    If Kafka does not let us keep positions, the run goes on without them.
    """

    def __init__(self, sink: Sink, resume_point: ResumePoint, warn: Callable[..., None]) -> None:
        """`warn` takes an event and its fields."""
        self.sink = sink
        self._resume_point = resume_point
        self._warn = warn

    async def check_against_kafka(self, server: Server, slot: Slot) -> None:
        resume_point, topics = self._resume_point, self.sink.topics
        if not resume_point.may_have_moved(slot) and server.offsets.topic in topics:
            return
        try:
            kept = await read_or_init_position(self.sink, server.offsets)
        except SetupError as error:
            self._warn(
                "Kafka keeps no position: if the slot is lost while pgrelay is down, that will go unnoticed",
                reason=str(error),
            )
            resume_point.check_unmoved(slot)
        else:
            upstream = server.upstream(slot)
            await upstream.check_further(kept, resume_point.own_position)
            if kept is not None and renumbers(kept, upstream.numbering):
                self._warn(f"{RENUMBERED}: {RENUMBERED_WHY}", cure=RENUMBERED_CURE)
            resume_point.adopt_position(kept)

    def guarantee(
        self, server: Server, slot: Slot, ledger: Ledger, assembler: Assembler, encoder: Encoder
    ) -> "AtLeastOnce":
        offsets, sink = server.offsets, self.sink
        kept = offsets.topic in sink.topics
        return AtLeastOnce(sink, ledger, Positions(sink, offsets, server.upstream(slot)) if kept else None)


class AtLeastOnce:
    """The `DeliveryGuarantee` of a sink without transactions. There is nothing to recover or to commit."""

    recovering = False
    sink_per_session: Final = False
    flushes_early: Final = True
    wants_boundary: Final = False

    def __init__(self, sink: Sink, ledger: Ledger, positions: Positions | None) -> None:
        """`positions`: None if Kafka keeps none."""
        self.relayed_lsn = 0
        self._sink = sink
        self._ledger = ledger
        self._positions = positions

    @property
    def oldest_progress(self) -> tuple[int, int] | None:
        return self._ledger.oldest_progress

    def recover(self) -> None:
        return None

    def on_entry(self, entry: InFlight, min_wal_end: int, *, has_records: bool) -> None:
        if has_records:
            # Consumers see a record as soon as a broker has it.
            self.relayed_lsn = min_wal_end

    def due_commit(self, *, nothing_else: bool) -> None:
        return None

    def commit(self) -> None:
        return None

    def may_settle(self, *, refused: bool) -> bool:
        if not self._ledger.has_unacknowledged:
            return False
        # Records before the refused one are still acknowledged, if there are any and Kafka lets us in.
        return not refused or (self._sink.in_queue > 0 and not self._sink.failures.locked_out)

    @property
    def awaits_confirmation(self) -> bool:
        return self._ledger.has_unacknowledged or self.confirmable_lsn < self._ledger.flush_lsn

    @property
    def confirmable_lsn(self) -> int:
        flush_lsn = self._ledger.flush_lsn
        return flush_lsn if self._positions is None else min(flush_lsn, self._positions.lsn)

    def write_position(self, *, at_once: bool) -> None:
        if self._positions is not None:
            self._positions.write(self._ledger.flush_lsn, self.relayed_lsn, at_once)

    def position_due_in_s(self) -> float:
        if self._positions is None:
            return math.inf
        return self._positions.due_in_s(self._ledger.flush_lsn, self.relayed_lsn)

    @property
    def position_unacknowledged_s(self) -> float | None:
        return None if self._positions is None else self._positions.unacknowledged_s
