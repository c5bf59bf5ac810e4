"""Exactly once: when to commit to Kafka, what a commit covers, and where to go on after a crash.

Theory of operation. No entry of the ledger counts as acknowledged until a Kafka commit covers it. So Postgres
is never told more than the offsets topic knows. A commit is due at a boundary between Postgres transactions,
once the Kafka transaction is old enough or there is nothing else to do. Inside a Postgres transaction it is
due only if that takes so long that brokers would abort the Kafka transaction; the position then says how many
of its records are in Kafka.

After a crash, Postgres sends again what was not confirmed. What the offsets topic has as delivered is
skipped: whole transactions by their commit LSN, and records of one that was delivered in part by their `seq`,
which is the same on every repetition. Until these have come again, each commit repeats the old position: a
position never goes back. Positions that can't be true are refused.
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
_COMMIT_AGE_S: Final = 0.25
_MAX_AGE_RATIO: Final = 0.25

# The acknowledgements of an entry until a commit covers all of it. Not 0: it may have no records.
_UNCOVERED: Final = -1

# How often the position alone is committed: of an idle stream, or past transactions that have no records.
_IDLE_COMMIT_AGE_S: Final = 1.0


class ExactlyOnceMode:
    """The `DeliveryMode` of a transactional sink."""

    def __init__(self, sink: TransactionalSink, resume_point: ResumePoint) -> None:
        self.sink = sink
        self._resume_point = resume_point
        self._known: Position | None = None

    async def check_against_kafka(self, server: Server, slot: Slot) -> None:
        # `recover` checks it, after the stream has begun, when nobody else can write any more. By then the
        # resume point has adopted the slot's position.
        self._known = self._resume_point.own_position

    def guarantee(
        self, server: Server, slot: Slot, ledger: Ledger, assembler: Assembler, encoder: Encoder
    ) -> "ExactlyOnce":
        return ExactlyOnce(self.sink, ledger, assembler, encoder, server.upstream(slot), self._known)


class ExactlyOnce:
    """The `DeliveryGuarantee` of a transactional sink: the Kafka transactions of one session."""

    # The open transaction is the session's; the next producer aborts it.
    sink_per_session: Final = True
    # A commit flushes the queue.
    flushes_early: Final = False
    # Consumers see nothing before a commit, and its position, which the ledger gets, includes all they see.
    relayed_lsn: Final = 0
    # A commit waits for every partition.
    oldest_progress: Final = None
    # A commit has the position, too.
    position_unacknowledged_s: Final = None

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
        self._has_records = False
        self._held_since = 0.0
        self._committed_at = 0.0
        self._committed = Position(0)
        self._max_age_s = sink.timeout_s * _MAX_AGE_RATIO

    async def recover(self) -> None:
        """Learn what was delivered, and have it skipped.

        Raises GapError if the position can't be true, PositionError if it can't be compared or counted.
        """
        position = await self._sink.recover() or self._known
        if position is not None:
            # Only now: the relay that had the slot before us may have gone on writing until we took it.
            await self._upstream.check(position)
            check_numbering(position, self._upstream.numbering)
            self._committed = position
            self._encoder.skip_delivered(position.lsn, position.commit_lsn, position.seq)
            self._assembler.note_delivered(position.lsn)
        self.recovering = False

    @property
    def awaits_confirmation(self) -> bool:
        # Positions alone are committed with what follows.
        return bool(self._held) and self._has_records

    def may_settle(self, *, refused: bool) -> bool:
        # A commit would cover the refused record, which is not in Kafka.
        return (
            not refused
            and self._ledger.has_unacknowledged
            and not self._ledger.in_transaction
            and bool(self._held)
        )

    def on_entry(self, entry: InFlight, min_wal_end: int, *, has_records: bool) -> None:
        """Hold the entry until a commit covers it. Under load that is due sooner if any has records."""
        self._has_records = self._has_records or has_records
        if self._held and self._held[-1] is entry:
            return
        if not self._held:
            self._held_since = time.monotonic()
        entry.acknowledged = _UNCOVERED
        self._held.append(entry)

    @property
    def confirmable_lsn(self) -> int:
        return self._ledger.flush_lsn

    def write_position(self, *, at_once: bool) -> None:
        return None

    def position_due_in_s(self) -> float:
        return math.inf

    def due_commit(self, *, nothing_else: bool) -> Commit | None:
        return self.commit() if self.is_due(nothing_else) else None

    def is_due(self, nothing_else: bool) -> bool:
        """Whether a commit is due."""
        if not self._held:
            return False
        now = time.monotonic()
        age_s = now - self._held_since
        if self._ledger.in_transaction:
            return age_s >= self._max_age_s
        if age_s >= self._commit_age_s:
            return True
        return nothing_else and (self._has_records or now >= self._committed_at + _IDLE_COMMIT_AGE_S)

    @property
    def wants_boundary(self) -> bool:
        """A commit would be due if no Postgres transaction were under way."""
        return bool(self._held) and time.monotonic() - self._held_since >= self._commit_age_s

    @property
    def _commit_age_s(self) -> float:
        """The age at which what is held is committed under load."""
        return _COMMIT_AGE_S if self._has_records else _IDLE_COMMIT_AGE_S

    async def commit(self) -> None:
        """Commit, and release the entries that the commit covers."""
        position = self._position()
        await self._sink.commit(position)
        self._committed = position
        self._committed_at = self._held_since = time.monotonic()
        self._has_records = self._ledger.in_transaction
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
