"""Collects the content of the status page: a sample every second, and a snapshot for each request.

The relay counts nothing extra for it. A sample reads the existing `Metrics`; a snapshot is built from the
samples, in the thread of the request.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from pgrelay import __version__
from pgrelay.assembly.open_transaction import OpenTransaction
from pgrelay.config import Config
from pgrelay.lsn import format_lsn
from pgrelay.metrics import Lsns, Metrics
from pgrelay.status.health import Health
from pgrelay.status.history import History, Sample
from pgrelay.status.snapshot import Chart, OpenTransactionSize, Snapshot, Stage, State, Table

# How many tables and open transactions are listed; the rest are only counted.
MAX_LISTED: Final = 20


class Status:
    """The status of one relay. Call `sample` from the event loop, and the other methods from any thread."""

    def __init__(
        self, config: Config, metrics: Metrics, health: Health, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives Unix seconds."""
        self._config = config
        self._masked = config.masked()
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._started_s = clock()
        self._lock = threading.Lock()
        self._history = History()
        self._open: list[OpenTransactionSize] = []

    def sample(self, held: Iterable[OpenTransaction]) -> None:
        """Sample the metrics and `held`, the transactions that wait for their commit."""
        metrics = self._metrics
        sample = Sample(
            at_s=self._clock(),
            lag_s=_none_if_nan(metrics.lag_s()),
            lag_bytes=metrics.lsns.lag_bytes,
            transactions=metrics.transactions,
            tables=Counter(metrics.tables),
            latencies=metrics.latencies(),
        )
        waiting = [OpenTransactionSize(t.xid, t.frames.in_memory, t.frames.on_disk) for t in held]
        with self._lock:
            self._history.add(sample)
            self._open = waiting

    def json(self) -> dict[str, Any]:
        """The relay's status now, as /status answers it."""
        return self.snapshot().as_json()

    def snapshot(self) -> Snapshot:
        """The relay's status now; rates, charts and open transactions are as of the last sample."""
        # Read without the lock: the event loop takes it, too, and a disk may hang.
        free, _ = self._metrics.spool_disk
        with self._lock:
            return self._snapshot(free)

    def _snapshot(self, free: float) -> Snapshot:
        metrics, history = self._metrics, self._history
        lsns = metrics.lsns  # read once: the relay updates it meanwhile
        state, reason = self._state()
        rates = history.records_per_s()
        tables = [Table(name, n, round(rates.get(name, 0.0), 1)) for name, n in list(metrics.tables.items())]
        return Snapshot(
            version=__version__,
            slot=self._config.source.slot,
            state=state,
            reason=reason,
            now_s=self._clock(),
            started_s=self._started_s,
            stages=_stages(lsns),
            lag_s=_none_if_nan(metrics.lag_s()),
            lag_bytes=lsns.lag_bytes,
            retained_wal_bytes=_int_or_none(metrics.slot_retained_wal),
            safe_wal_bytes=_int_or_none(metrics.slot_safe_wal),
            wal_limited=None if math.isnan(metrics.slot_safe_wal) else math.isfinite(metrics.slot_safe_wal),
            records_per_s=round(sum(rates.values()), 1),
            transactions_per_s=round(history.transactions_per_s(), 1),
            latency_p50_s=history.latency_s(0.5),
            latency_p99_s=history.latency_s(0.99),
            inflight_records=metrics.inflight_records,
            tables=sorted(tables, key=lambda t: (-t.per_s, -t.records, t.name))[:MAX_LISTED],
            tables_total=len(tables),
            open=sorted(self._open, key=lambda t: -(t.memory_bytes + t.disk_bytes))[:MAX_LISTED],
            open_total=len(self._open),
            memory_limit_bytes=self._config.transactions.memory_mb << 20,
            spooled_bytes=metrics.spooled_bytes,
            spool_free_bytes=_int_or_none(free),
            troubles=self._health.troubles.latest(),
            chart=Chart(
                [None if point.lag_s is None else round(point.lag_s, 3) for point in history.points],
                [point.lag_bytes for point in history.points],
                [round(point.records_per_s, 1) for point in history.points],
            ),
            config=self._masked,
        )

    def _state(self) -> tuple[State, str]:
        stuck_s = self._health.stuck_for_s()
        if stuck_s is not None:
            return "stuck", f"the event loop has not run for {stuck_s:.0f} s"
        ready, reason = self._health.state
        return "streaming" if ready else "waiting", reason


def _stages(lsns: Lsns) -> list[Stage]:
    names = ("server", "received", "acknowledged", "confirmed")
    stages: list[Stage] = []
    before = lsns.server
    for name in names:
        lsn: int | None = getattr(lsns, name)
        behind = None if before is None or lsn is None else max(0, before - lsn)
        stages.append(Stage(name, None if lsn is None else format_lsn(lsn), behind))
        before = lsn
    return stages


def _none_if_nan(number: float) -> float | None:
    return None if math.isnan(number) else number


def _int_or_none(number: float) -> int | None:
    return int(number) if math.isfinite(number) else None
