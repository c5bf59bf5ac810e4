"""What the relay counts, for Prometheus and for the status page.

One `Metrics` per relay. The relay counts in plain integers and hands over sums once per batch; no method here
is meant to be called per row. LSNs are byte positions, as numbers. In other numbers, NaN means unknown.
"""

import math
import shutil
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final, get_args

from pgrelay.errors import End

# From a commit that is acknowledged at once to one that had to wait for a broker's restart.
_LATENCY_BOUNDS_S: Final = (
    *(0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, math.inf),
)

# Each table has a series for each of its ops. Beyond this many tables, the rest share one label.
MAX_TABLES: Final = 500
OTHER_TABLES: Final = "(other)"


@dataclass(frozen=True, slots=True)
class Lsns:
    """The four LSNs: the end of the server's WAL, and how far each stage has come; None if not known yet."""

    server: int | None = None
    received: int | None = None
    acknowledged: int | None = None
    confirmed: int | None = None

    @property
    def lag_bytes(self) -> int | None:
        """Bytes of WAL that the server has written and that are not confirmed; None if not known yet."""
        if self.server is None or self.confirmed is None:
            return None
        return max(0, self.server - self.confirmed)


class Metrics:
    """The relay's last known state. Safe to read from any thread while the relay updates it.

    The relay updates plain numbers itself: `transactions` counts those acknowledged, `delivery_errors` the
    records that Kafka refused for good. `spooled_bytes` of open transactions are on disk now;
    `spooled_bytes_total` have been written so far. `tables` counts records by `schema.table`, `records` by
    table and op, `dead_letters` by table. `latency_sum_s` is the sum over all deliveries. `labels` describe
    the relay.
    `last_delivered_s`: when the last acknowledged transaction committed, in Unix seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._clock = clock
        self._is_streaming: Callable[[], bool] = lambda: False
        self._spool: Path | None = None
        self._oldest_commit_s: float | None = None
        self.last_delivered_s: float | None = None
        self._labelled: set[str] = set()
        self.labels: dict[str, str] = {}
        self.lsns = Lsns()
        self.slot_retained_wal = math.nan
        self.slot_safe_wal = math.nan
        self.tables: Counter[str] = Counter()
        self.records: Counter[tuple[str, str]] = Counter()
        self.transactions = 0
        self.inflight_records = 0
        self.open_transactions = 0
        self.published_tables = math.nan
        self.spooled_bytes = 0
        self.spooled_bytes_total = 0
        # All exist from the start, so that a first reconnection shows as an increase.
        self.reconnects: Counter[End] = Counter(dict.fromkeys(get_args(End), 0))
        self.delivery_errors = 0
        self.dead_letters: Counter[str] = Counter()
        self.latency_sum_s = 0.0
        # Counts per bucket, not cumulative.
        self._latencies = [0] * len(_LATENCY_BOUNDS_S)

    @property
    def streaming(self) -> bool:
        """The stream flows from the slot to Kafka."""
        return self._is_streaming()

    @property
    def spool_disk(self) -> tuple[float, float]:
        """Free and total bytes of the disk that holds the spool, now."""
        return (math.nan, math.nan) if self._spool is None else _disk_bytes(self._spool)

    def lag_s(self) -> float:
        """Age in seconds of the oldest commit that Kafka has not acknowledged; 0 when there is none.

        nan if unknown: nothing flows, and there may be commits that we have not seen.
        """
        oldest_s = self._oldest_commit_s
        if oldest_s is None:
            return 0.0 if self.streaming else math.nan
        return max(0.0, self._clock() - oldest_s)

    def set_labels(self, **labels: str) -> None:
        """Set the labels of `pgrelay_info`: version, slot, prefix."""
        self.labels = labels

    def set_sources(self, streaming: Callable[[], bool], spool: Path) -> None:
        """Set what is evaluated whenever metrics are read: `streaming`, and the disk under `spool`."""
        self._is_streaming = streaming
        self._spool = spool

    def set_lsns(self, *, received: int, acknowledged: int, confirmed: int, server: int) -> None:
        """Set the four LSNs, and the lag in bytes that follows from them."""
        self.lsns = Lsns(server, received, acknowledged, confirmed)

    def set_slot(self, *, server: int, confirmed: int | None) -> None:
        """Set what the server reports, even while nothing flows; `confirmed` is None without a slot."""
        self.lsns = replace(self.lsns, server=server, confirmed=confirmed)

    def set_slot_wal(self, *, retained: float, safe: float) -> None:
        """Set the bytes of WAL kept for the slot, and left until it is lost (inf: no limit, nan: unknown)."""
        self.slot_retained_wal, self.slot_safe_wal = retained, safe

    def set_oldest_commit(self, unix_us: int | None) -> None:
        """Set the commit time (microseconds since 1970) of the oldest unacknowledged transaction, if any.

        For one that has not been received yet, the earliest time that is possible. The lag in seconds is
        computed from it whenever metrics are read, so it grows while the relay waits.
        """
        self._oldest_commit_s = None if unix_us is None else unix_us / 1_000_000

    def add_dead_letters(self, table: str, count: int) -> None:
        """Count records of a table, `schema.table`, that were set aside."""
        self.dead_letters[self._table_label(table)] += count

    def add_records(self, table: str, op: str, n: int) -> None:
        """Count n records given to the producer; `table` is `schema.table`, `op` the record's letter."""
        table = self._table_label(table)
        self.tables[table] += n
        self.records[table, op] += n

    def _table_label(self, table: str) -> str:
        """The label for a table: its own name, unless the limit was reached before it came."""
        if table not in self._labelled and len(self._labelled) >= MAX_TABLES:
            return OTHER_TABLES
        self._labelled.add(table)
        return table

    def observe_delivery(self, commit_us: int) -> None:
        """Record that a transaction committed at `commit_us` (since 1970) is acknowledged now."""
        self.last_delivered_s = commit_us / 1_000_000
        latency_s = max(0.0, self._clock() - self.last_delivered_s)
        self.latency_sum_s += latency_s
        self._latencies[bisect_left(_LATENCY_BOUNDS_S, latency_s)] += 1

    def latencies(self) -> list[tuple[float, float]]:
        """The delivery latency's histogram: (upper bound in seconds, transactions up to it), in order."""
        return list(zip(_LATENCY_BOUNDS_S, accumulate(self._latencies), strict=True))


def _disk_bytes(folder: Path) -> tuple[float, float]:
    """Free and total bytes of the disk under a folder; nan if there is no such folder (yet)."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return math.nan, math.nan
    return float(usage.free), float(usage.total)
