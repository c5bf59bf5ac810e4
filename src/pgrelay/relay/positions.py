"""At least once: the position in Kafka, which is acknowledged there before Postgres is told of it.

So if a slot stands beyond it, someone else moved or re-created the slot, whoever finds it and whenever.
"""

import math
import time
from typing import Final

from pgrelay.kafka.offsets import Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight
from pgrelay.relay.gap_checks import Upstream

# Between two positions. A confirmation waits for its position, so the slot moves no more often.
_APART_S: Final = 0.1
# The same if no rows came since: of a quiet stream on a busy server, whose WAL has other tables' changes.
_IDLE_APART_S: Final = 1.0


class Positions:
    """The positions of one session. `lsn` is the LSN that Postgres may be told."""

    def __init__(self, sink: Sink, offsets: Offsets, upstream: Upstream) -> None:
        """`upstream.slot_lsn` is what Postgres was told already."""
        self.lsn = upstream.slot_lsn
        self._sink = sink
        self._offsets = offsets
        self._upstream = upstream
        self._kept = -1
        self._under_way: InFlight | None = None
        self._began = -math.inf

    @property
    def waits_s(self) -> float | None:
        """Seconds since the last position was written; None once Kafka has acknowledged it."""
        return None if self._under_way is None else time.monotonic() - self._began

    def keep(self, lsn: int, rows_lsn: int, at_once: bool = False) -> None:
        """Write the position to Kafka, one at a time, not too often. Kafka has acknowledged all up to `lsn`.

        `rows_lsn`: where the last rows are, acknowledged or not. `at_once`: even shortly after the last one.
        """
        if self._under_way is not None and self._under_way.done:
            assert self._under_way.end_lsn is not None
            self._kept = self._under_way.end_lsn
            self.lsn = max(self.lsn, self._kept)
            self._under_way = None
        rest_s = self.rest_s(lsn, rows_lsn)
        if rest_s <= 0 or (at_once and rest_s < math.inf):
            self._write(lsn)

    def _write(self, lsn: int) -> None:
        entry = InFlight(None, lsn)
        entry.records = 1
        record = self._offsets.record(self._upstream.position(lsn))
        self._began = time.monotonic()
        # 0, as a position belongs to no transaction that could be skipped.
        # If there is no room, a later turn tries again: what fills the queue has to be acknowledged first.
        if self._sink.produce([record], 0, self._sink.delivery(entry, 0)):
            self._under_way = entry

    def rest_s(self, lsn: int, rows_lsn: int) -> float:
        """Seconds until the position may be written; inf if there is nothing to write now."""
        if self._under_way is not None or lsn <= self._kept:
            return math.inf
        apart_s = _APART_S if self._kept < rows_lsn else _IDLE_APART_S
        return self._began + apart_s - time.monotonic()
