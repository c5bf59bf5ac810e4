"""Exactly once: when to commit to Kafka, what a commit covers, and where to go on after a crash.

Theory of operation. No entry of the ledger counts as acknowledged until a Kafka commit covers it. So Postgres
is never told more than the offsets topic knows. A commit is due at a boundary between Postgres transactions,
once the Kafka transaction is old enough or there is nothing else to do. Inside a Postgres transaction it is
due only if that takes longer than a broker would wait; the commit then has the position reached.

After a crash, Postgres sends again what it was not told of. What the offsets topic says was delivered is
skipped: whole transactions by their commit LSN, and the records of one that was cut by their `seq`, which is
the same on every repetition. Until these have come again, each commit repeats the old position: a position
never goes back. Positions that can't be true are refused.
"""

import math
import time
from typing import Final

from pgrelay.assembly.assembler import Assembler
from pgrelay.encode.encoder import Encoder
from pgrelay.kafka.offsets import Position
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.postgres.slots import Slot
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.gap_checks import Upstream
from pgrelay.relay.guarantee import Commit
from pgrelay.relay.numbering import check_numbering
from pgrelay.relay.resume_point import ResumePoint
from pgrelay.relay.server import Server

# The age at which a Kafka transaction is committed: in seconds under load; inside a single Postgres
# transaction, as a part of transaction.timeout.ms, after which brokers abort it.
_OLD_ENOUGH_S: Final = 0.25
_TOO_OLD: Final = 0.25

# What an entry has as acknowledged until a commit covers all of it. Not 0: it may have no records.
_UNCOVERED: Final = -1

# How often the position alone is committed: of an idle stream, or past transactions that have no records.
_IDLE_EVERY_S: Final = 1.0


class ExactlyOnceStart:
    """The `GuaranteedStart` of a transactional sink."""

    def __init__(self, sink: TransactionalSink, resume_point: ResumePoint) -> None:
        self.sink = sink
        self._resume_point = resume_point
        self._known: Position | None = None

    async def hold_against_kafka(self, server: Server, slot: Slot) -> None:
        # `recover` checks it, after the stream has begun, when nobody else can write any more. By then the
        # resume point has adopted the slot's position.
        self._known = self._resume_point.own_position

    def guarantee(
        self, server: Server, slot: Slot, ledger: Ledger, assembler: Assembler, encoder: Encoder
    ) -> "ExactlyOnce":
        return ExactlyOnce(self.sink, ledger, assembler, encoder, server.upstream(slot), self._known)


class ExactlyOnce:
    """The `DeliveryGuarantee` of a transactional sink: the Kafka transactions of one session."""

    # Its open transaction belongs to the session; a new producer aborts it.
    spends_sink: Final = True
    # A commit sends what is queued.
    hurries: Final = False
    # Readers see nothing before a commit, and its position, which the ledger gets, includes all they see.
    relayed_lsn: Final = 0
    # A commit waits for every partition.
    standing: Final = None
    # A commit has the position, too.
    position_waits_s: Final = None

    def __init__(
        self,
        sink: TransactionalSink,
        ledger: Ledger,
        assembler: Assembler,
        encoder: Encoder,
        upstream: Upstream,
        known: Position | None,
    ) -> None:
        """`upstream` as it was before streaming began; `known`: what this process then knew as delivered."""
        self.recovering = True
        self._upstream = upstream
        self._known = known
        self._sink = sink
        self._ledger = ledger
        self._assembler = assembler
        self._encoder = encoder
        self._held: list[InFlight] = []
        self._records = False
        self._oldest = 0.0
        self._committed_at = 0.0
        self._committed = Position(0)
        self._too_old_s = sink.timeout_s * _TOO_OLD

    async def recover(self) -> None:
        """Learn what was delivered, and have it skipped.

        Raises GapError if that can't be true, PositionError if it can't be compared or counted.
        """
        position = await self._sink.recover() or self._known
        if position is not None:
            # Only now: the relay that had the slot before us may have written until we got it.
            await self._upstream.check(position)
            check_numbering(position, self._upstream.numbering)
            self._committed = position
            self._encoder.skip_delivered(position.lsn, position.commit_lsn, position.seq)
            self._assembler.note_delivered(position.lsn)
        self.recovering = False

    @property
    def awaits_confirmation(self) -> bool:
        # Positions alone are committed with what follows.
        return bool(self._held) and self._records

    def may_settle(self, *, refused: bool) -> bool:
        # A commit would cover the refused record, which is not in Kafka.
        return not refused and self._ledger.waiting and not self._ledger.in_transaction and bool(self._held)

    def entered(self, entry: InFlight, reaches: int, *, has_records: bool) -> None:
        """Hold the entry until a commit covers it. Under load that is due sooner if any has records."""
        self._records = self._records or has_records
        if self._held and self._held[-1] is entry:
            return
        if not self._held:
            self._oldest = time.monotonic()
        entry.acknowledged = _UNCOVERED
        self._held.append(entry)

    @property
    def confirmable_lsn(self) -> int:
        return self._ledger.flush_lsn

    def keep_position(self, *, at_once: bool) -> None:
        return None

    def position_rest_s(self) -> float:
        return math.inf

    def due_commit(self, *, nothing_else: bool) -> Commit | None:
        return self.commit() if self.due(nothing_else) else None

    def due(self, nothing_else: bool) -> bool:
        """Whether to commit now."""
        if not self._held:
            return False
        now = time.monotonic()
        age_s = now - self._oldest
        if self._ledger.in_transaction:
            return age_s >= self._too_old_s
        if age_s >= self._old_enough_s:
            return True
        return nothing_else and (self._records or now >= self._committed_at + _IDLE_EVERY_S)

    @property
    def wants_boundary(self) -> bool:
        """A commit would be due if no Postgres transaction were under way."""
        return bool(self._held) and time.monotonic() - self._oldest >= self._old_enough_s

    @property
    def _old_enough_s(self) -> float:
        """The age at which what is held is committed under load."""
        return _OLD_ENOUGH_S if self._records else _IDLE_EVERY_S

    async def commit(self) -> None:
        """Commit, and release what the commit covers."""
        position = self._position()
        await self._sink.commit(position)
        self._committed = position
        self._committed_at = self._oldest = time.monotonic()
        self._records = self._ledger.in_transaction
        for entry in self._held:
            if entry.end_lsn is not None:
                entry.acknowledged = entry.records
        self._held = [entry for entry in self._held if entry.end_lsn is None]

    def _position(self) -> Position:
        """What is delivered with this commit: never less than with an earlier one."""
        lsn = max(self._committed.lsn, self._ledger.ended_lsn)
        cut = (self._committed.commit_lsn or 0, self._committed.seq or 0)
        if self._ledger.in_transaction:
            cut = max(cut, self._encoder.position)
        if cut[0] < lsn:
            return self._upstream.position(lsn)
        return self._upstream.position(lsn, *cut)
