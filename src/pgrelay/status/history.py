"""The last ten minutes: one sample a second, and the differences between consecutive samples."""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# In samples, which are a second apart: ten minutes of lag and rate, and the window of a rate.
MAX_POINTS: Final = 600
_WINDOW: Final = 10

Latencies = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment; `at_s` is Unix time, `latencies` the histogram as `Metrics` gives it.

    The lag is None if it is not known.
    """

    at_s: float
    lag_s: float | None
    lag_bytes: int | None
    transactions: int
    tables: Counter[str]
    latencies: Latencies


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the charts; the lag is None if it was not known."""

    at_s: float
    lag_s: float | None
    lag_bytes: int | None
    records_per_s: float


class History:
    """Samples of one process. Counts only increase, since one `Metrics` outlives every session."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=MAX_POINTS)
        self._last: Sample | None = None
        # The increase from one sample to the next: seconds, transactions, and records by table.
        self._added: deque[tuple[float, int, Counter[str]]] = deque(maxlen=_WINDOW)
        self._latencies: deque[Latencies] = deque(maxlen=_WINDOW + 1)

    def add(self, sample: Sample) -> None:
        """Add the next sample, about a second after the last."""
        rate = 0.0 if self._last is None else self._rate_since(self._last, sample)
        self._last = sample
        self._latencies.append(sample.latencies)
        self.points.append(Point(sample.at_s, sample.lag_s, sample.lag_bytes, rate))

    def _rate_since(self, last: Sample, sample: Sample) -> float:
        seconds = sample.at_s - last.at_s
        if seconds <= 0:
            # The clock was set back: start measuring again.
            self._added.clear()
            self._latencies.clear()
            return 0.0
        # The difference of two Counters contains only counts that increased.
        records = sample.tables - last.tables
        self._added.append((seconds, sample.transactions - last.transactions, records))
        return records.total() / seconds

    def records_per_s(self) -> dict[str, float]:
        """Records a second by table over the last seconds, without tables that did not change."""
        total: Counter[str] = Counter()
        for _, _, records in self._added:
            total.update(records)
        return {table: n / self._seconds for table, n in total.items()}

    def transactions_per_s(self) -> float:
        """Acknowledged transactions a second over the last seconds."""
        added = sum(transactions for _, transactions, _ in self._added)
        return added / self._seconds if added else 0.0

    def latency_s(self, share: float) -> float | None:
        """The latency quantile `share` of the last seconds' transactions; None if there were none."""
        if len(self._latencies) < 2:
            return None
        before, now = self._latencies[0], self._latencies[-1]
        added = [(bound, n - m) for (bound, n), (_, m) in zip(now, before, strict=True)]
        return quantile(added, share)

    @property
    def _seconds(self) -> float:
        return sum(seconds for seconds, _, _ in self._added)


def quantile(histogram: Sequence[tuple[float, float]], share: float) -> float | None:
    """A quantile of a cumulative histogram, (upper bound, count) in order, interpolated within a bucket.

    None if nothing was counted; the highest finite bound if the quantile lies above it.
    """
    total = histogram[-1][1]
    if total <= 0:
        return None
    wanted, lower, below = total * share, 0.0, 0.0
    for bound, count in histogram:
        if count >= wanted:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (wanted - below) / (count - below)
        lower, below = bound, count
    return lower
