"""Exactly once: when to commit to Kafka, what a commit covers, and where to go on after a crash.

Theory of operation. Everything that enters the ledger is held there by one record more than it has, until a
Kafka commit covers it: so Postgres is never told more than the offsets topic knows. A commit is due at a
boundary between Postgres transactions, once the Kafka transaction is old enough or there is nothing else to
do; and inside a Postgres transaction only where it takes longer than a broker would wait, together with the
position reached.

After a crash Postgres sends again what it was not told of. What the offsets topic says was delivered is then
skipped: whole transactions by their commit LSN, and the records of the one that was cut by their `seq`, which
is the same on every repetition. Until they have come again, a commit repeats what was delivered of them: a
position never goes back. Positions that can't be true are refused.
"""

import time
from typing import Final

from pgrelay.encode.encoder import Encoder
from pgrelay.kafka.offsets import Delivered
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.gap_checks import Upstream

# A Kafka transaction under load; and one that a single Postgres transaction stretches, as a part of
# transaction.timeout.ms, after which brokers abort it.
_OLD_ENOUGH_S: Final = 0.25
_TOO_OLD: Final = 0.25

# How often an idle stream's position is committed.
_IDLE_EVERY_S: Final = 1.0


class Commits:
    """The Kafka transactions of one session."""

    def __init__(
        self,
        sink: TransactionalSink,
        ledger: Ledger,
        encoder: Encoder,
        upstream: Upstream,
        known: Delivered | None,
    ) -> None:
        """`upstream` as it was before streaming began, `known` what this process then knew of Kafka."""
        self._upstream = upstream
        self._known = known
        self._sink = sink
        self._ledger = ledger
        self._encoder = encoder
        self._held: list[InFlight] = []
        self._records = False
        self._oldest = 0.0
        self._committed_at = 0.0
        self._committed = Delivered(0)
        self._too_old_s = sink.timeout_s * _TOO_OLD

    async def recover(self) -> None:
        """Learn what was delivered, and have the encoder skip it. Raises GapError on what can't be true."""
        position = await self._sink.recover() or self._known
        if position is None:
            return
        # Only now: the relay that had the slot before us may have gone on until we got it.
        await self._upstream.check(position)
        self._committed = position
        self._encoder.skip(position.lsn, position.commit_lsn, position.seq)

    @property
    def delivered_lsn(self) -> int:
        """Up to where all is in Kafka, by the last commit or what was there at the start."""
        return self._committed.lsn

    @property
    def pending(self) -> bool:
        """Something entered the ledger that no commit covers."""
        return bool(self._held)

    def hold(self, entry: InFlight, records: bool) -> None:
        """Something entered the ledger; `records`: not a mere position."""
        if self._held and self._held[-1] is entry:
            return
        if not self._held:
            self._oldest = time.monotonic()
        entry.records += 1
        self._held.append(entry)
        self._records = self._records or records

    def due(self, nothing_else: bool) -> bool:
        """Whether to commit now. All that has entered must have been handed to the producer."""
        if not self._held:
            return False
        age_s = time.monotonic() - self._oldest
        if self._ledger.in_transaction:
            return age_s >= self._too_old_s
        if self._records:
            return nothing_else or age_s >= _OLD_ENOUGH_S
        return nothing_else and time.monotonic() >= self._committed_at + _IDLE_EVERY_S

    @property
    def wants_boundary(self) -> bool:
        """A commit would be due, were it not for a Postgres transaction that is on its way."""
        return self._records and bool(self._held) and time.monotonic() - self._oldest >= _OLD_ENOUGH_S

    async def commit(self) -> None:
        """Commit, and let go of what the commit covers."""
        position = self._position()
        await self._sink.commit(position)
        self._committed = position
        self._committed_at = self._oldest = time.monotonic()
        self._records = self._ledger.in_transaction
        for entry in self._held:
            whole = entry.end_lsn is not None
            entry.acknowledged = entry.records if whole else entry.records - 1
        self._held = [entry for entry in self._held if entry.end_lsn is None]

    def _position(self) -> Delivered:
        """What is delivered with this commit: never less than with an earlier one."""
        lsn = max(self._committed.lsn, self._ledger.ended_lsn)
        cut = (self._committed.commit_lsn or 0, self._committed.seq or 0)
        if self._ledger.in_transaction:
            cut = max(cut, self._encoder.position)
        if cut[0] < lsn:
            return self._upstream.delivered(lsn)
        return self._upstream.delivered(lsn, *cut)
