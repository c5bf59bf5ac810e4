"""What the demo counts while records arrive, and the status line with these counts."""

import time
from collections import Counter, deque
from collections.abc import Callable
from statistics import median
from typing import Final

from pgrelay.demo.change import Change
from pgrelay.demo.screen import Line
from pgrelay.demo.shop import Key
from pgrelay.demo.view import OP_STYLES
from pgrelay.figures import size

_RATE_OVER_S: Final = 3.0
_LAGS_KEPT: Final = 50


class Tally:
    """Counts the records of each table by op, and how long each transaction takes from commit to consumer.

    `rolled_back` has keys of rows that must never arrive; it may grow meanwhile.
    """

    def __init__(self, rolled_back: set[Key], clock: Callable[[], float] = time.time) -> None:
        self.records: Counter[tuple[str, str]] = Counter()
        self.rolled_back = rolled_back
        self.leaked = set[Key]()
        self._clock = clock
        self._arrivals: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._last_commit = 0
        self._lags_ms: deque[float] = deque(maxlen=_LAGS_KEPT)
        self.max_lag_ms = 0.0

    def add(self, change: Change) -> None:
        self.records[change.table, change.op] += 1
        if (change.table, change.row_key) in self.rolled_back:
            self.leaked.add((change.table, change.row_key))
        self._measure(change)

    def _measure(self, change: Change) -> None:
        lag_ms = self._clock() * 1e3 - change.commit_us / 1e3
        self.max_lag_ms = max(self.max_lag_ms, lag_ms)
        if change.position[0] == self._last_commit:
            # A transaction has arrived when its last record has: replace the lag of the record before.
            self._lags_ms.pop()
        self._last_commit = change.position[0]
        self._lags_ms.append(lag_ms)

    @property
    def total(self) -> int:
        """All records, including tombstones."""
        return self.records.total()

    @property
    def lag_ms(self) -> float:
        """The median lag of the last transactions."""
        return median(self._lags_ms) if self._lags_ms else 0.0

    def count_of(self, op: str) -> int:
        return sum(count for (_, other), count in self.records.items() if other == op)

    def rate(self) -> float:
        """Records a second over the last seconds; call it regularly, since each call is a sample."""
        now, total = self._clock(), self.total
        self._arrivals.append((now, total))
        while len(self._arrivals) > 2 and self._arrivals[1][0] < now - _RATE_OVER_S:
            self._arrivals.popleft()
        since, before = self._arrivals[0]
        return (total - before) / (now - since) if now > since else 0.0

    def status(self, lag_bytes: int, note: str) -> Line:
        """The line for the bottom of the terminal, the least important pieces last."""
        line: Line = [("bold", f"{self.total:,}"), ("", " records ")]
        for op in ("c", "u", "d", "t", "m"):
            if count := self.count_of(op):
                line.append((OP_STYLES[op], f" {op} {count:,}"))
        line += [("", f"  {self.rate():,.0f}/s  lag {size(lag_bytes)}, {self.lag_ms:.0f} ms")]
        if self.rolled_back:
            line.append(("", f"  rolled back {len(self.rolled_back)}, {len(self.leaked)} arrived"))
        return [*line, ("dim", f"  {note}")]
