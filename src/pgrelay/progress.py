"""Which LSN may be confirmed: the ledger of what is in flight.

Theory of operation. Transactions enter in commit order. Each counts its records and those that Kafka has
acknowledged, in any order. A transaction is done when it has ended and the two counts are equal. The flush
LSN is the end of the longest done prefix: an unacknowledged transaction holds back everything behind it,
which is what makes a crash harmless.

Positions with nothing to deliver (a keepalive, a transaction put on disk) are queued in the same order. When
nothing is outstanding, a keepalive's WAL end may be confirmed, because every commit before it has been sent.
That is how an idle publication on a busy server releases WAL. The server believes any LSN that it is told,
even one past its own WAL end, so nothing is confirmed beyond what the server itself has named.
"""

from collections import deque
from typing import Final

from pgrelay.errors import ProtocolError
from pgrelay.lsn import format_lsn

# Some 30 MB. The producer's queue is full long before, unless only one partition acknowledges nothing: then
# acknowledged transactions wait here behind unacknowledged ones.
_MAX_ENTRIES: Final = 200_000


class InFlight:
    """One transaction's records, from their encoding to their acknowledgement.

    `records` counts those encoded so far, whether the producer has them yet or not. `commit_us` is in
    microseconds since 1970, and None for a bare WAL position.
    """

    __slots__ = ("acknowledged", "commit_us", "end_lsn", "records")

    def __init__(self, commit_us: int | None, end_lsn: int | None = None) -> None:
        self.commit_us = commit_us
        self.end_lsn = end_lsn
        self.records = 0
        self.acknowledged = 0

    @property
    def done(self) -> bool:
        return self.end_lsn is not None and self.acknowledged == self.records


class Ledger:
    """What is in flight, in commit order. `flush_lsn` never decreases.

    `ended_lsn` is the end of everything that has entered, acknowledged or not.
    """

    def __init__(self, flush_lsn: int = 0, max_entries: int = _MAX_ENTRIES) -> None:
        """`max_entries`: the number of entries at which the ledger is full."""
        self.flush_lsn = flush_lsn
        self.server_lsn = flush_lsn
        self.ended_lsn = flush_lsn
        self._max_entries = max_entries
        self._queue: deque[InFlight] = deque()
        self._has_entered = False  # a position, or a transaction
        self._current: InFlight | None = None

    @property
    def idle(self) -> bool:
        """Nothing is outstanding: everything that entered is confirmable."""
        return not self._queue

    @property
    def full(self) -> bool:
        """Nothing more should be read until Kafka acknowledges what is outstanding."""
        return len(self._queue) >= self._max_entries

    @property
    def in_transaction(self) -> bool:
        """A transaction has begun and not ended."""
        return self._current is not None

    @property
    def has_unacknowledged(self) -> bool:
        """A transaction that has ended, or a position, is not acknowledged yet."""
        return any(entry.end_lsn is not None for entry in self._queue)

    @property
    def oldest_commit_us(self) -> int | None:
        """Commit time of the oldest waiting transaction; None if none waits."""
        return next((entry.commit_us for entry in self._queue if entry.commit_us is not None), None)

    @property
    def oldest_progress(self) -> tuple[int, int] | None:
        """The flush LSN and the oldest entry's acknowledgements so far; None if it lacks none."""
        oldest = self._queue[0] if self._queue else None
        if oldest is None or oldest.acknowledged == oldest.records:
            return None
        return self.flush_lsn, oldest.acknowledged

    def note_wal_end(self, wal_end: int) -> None:
        """The server has named this position in its WAL."""
        self.server_lsn = max(self.server_lsn, wal_end)

    def begin(self, commit_us: int) -> InFlight:
        """Enter the next transaction in commit order."""
        assert self._current is None, "a transaction began inside another"
        self._current = InFlight(commit_us)
        self._queue.append(self._current)
        return self._current

    def end(self, end_lsn: int) -> None:
        """Close the current transaction: it has all its records."""
        assert self._current is not None, "a transaction ended that never began"
        self._check(end_lsn)
        self._current.end_lsn = end_lsn
        self._current = None
        self._has_entered = True
        self.ended_lsn = max(self.ended_lsn, end_lsn)

    def enter_position(self, lsn: int) -> InFlight | None:
        """Enter a position with nothing to deliver.

        Ignored (None) while a transaction is coming in, or if it lies no further than what was entered. The
        first one is entered even where the stream began: Kafka may not have that position yet.
        """
        if self._current is not None or (self._has_entered and lsn <= self.ended_lsn):
            return None
        self._check(lsn)
        self._has_entered = True
        self.ended_lsn = max(self.ended_lsn, lsn)
        tail = self._queue[-1] if self._queue else None
        if tail is not None and tail.commit_us is None:
            tail.end_lsn = lsn
            return tail
        position = InFlight(None, lsn)
        self._queue.append(position)
        return position

    def _check(self, lsn: int) -> None:
        if lsn > self.server_lsn:
            raise ProtocolError(
                f"refusing to confirm LSN {format_lsn(lsn)}: it lies beyond {format_lsn(self.server_lsn)}, "
                "the end of WAL that the server named"
            )

    def advance(self) -> list[InFlight]:
        """Move the flush LSN over the done prefix; returns the transactions it moved over."""
        passed: list[InFlight] = []
        queue = self._queue
        while queue and queue[0].done:
            entry = queue.popleft()
            assert entry.end_lsn is not None
            self.flush_lsn = max(self.flush_lsn, entry.end_lsn)
            if entry.commit_us is not None:
                passed.append(entry)
        return passed
