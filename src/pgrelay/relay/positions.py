"""At least once: the position is written to Kafka, and acknowledged there, before Postgres is told of it.

So a slot that stands beyond its position was moved or re-created by someone else, whenever that is found.
"""

import math
import time
from typing import Final

from pgrelay.kafka.offsets import Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight
from pgrelay.relay.gap_checks import Upstream

# Between two positions. A confirmation waits for its position, so this is how often the slot moves, too.
_INTERVAL_S: Final = 0.1
# The same when no rows have come since: an idle publication on a busy server, whose WAL is other tables'.
_IDLE_INTERVAL_S: Final = 1.0


class Positions:
    """The positions of one session. `lsn` is the LSN that Postgres may be told."""

    def __init__(self, sink: Sink, offsets: Offsets, upstream: Upstream) -> None:
        """`upstream.slot_lsn` is what Postgres was told already."""
        self.lsn = upstream.slot_lsn
        self._sink = sink
        self._offsets = offsets
        self._upstream = upstream
        self._acknowledged_lsn = -1
        self._in_flight: InFlight | None = None
        self._written_at = -math.inf

    @property
    def unacknowledged_s(self) -> float | None:
        """Seconds since the last position was written; None once Kafka has acknowledged it."""
        return None if self._in_flight is None else time.monotonic() - self._written_at

    def write(self, lsn: int, rows_lsn: int, at_once: bool = False) -> None:
        """Write `lsn`, up to which Kafka has acknowledged everything: one position at a time, not too often.

        `rows_lsn`: where the last rows are, acknowledged or not. `at_once`: don't wait for the interval.
        """
        if self._in_flight is not None and self._in_flight.done:
            assert self._in_flight.end_lsn is not None
            self._acknowledged_lsn = self._in_flight.end_lsn
            self.lsn = max(self.lsn, self._acknowledged_lsn)
            self._in_flight = None
        due_in_s = self.due_in_s(lsn, rows_lsn)
        if due_in_s <= 0 or (at_once and due_in_s < math.inf):
            self._produce(lsn)

    def _produce(self, lsn: int) -> None:
        entry = InFlight(None, lsn)
        entry.records = 1
        record = self._offsets.record(self._upstream.position(lsn))
        self._written_at = time.monotonic()
        # 0: a position belongs to no transaction that could be skipped. If there is no room, a later turn
        # tries again, once Kafka has acknowledged some of what fills the queue.
        if self._sink.produce([record], 0, self._sink.delivery(entry, 0)):
            self._in_flight = entry

    def due_in_s(self, lsn: int, rows_lsn: int) -> float:
        """Seconds until the position may be written; inf if there is nothing to write now."""
        if self._in_flight is not None or lsn <= self._acknowledged_lsn:
            return math.inf
        interval_s = _INTERVAL_S if self._acknowledged_lsn < rows_lsn else _IDLE_INTERVAL_S
        return self._written_at + interval_s - time.monotonic()
