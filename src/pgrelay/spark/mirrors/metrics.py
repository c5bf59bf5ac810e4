"""The Prometheus metrics of a mirror's listener. Tables are named by their topics."""

import math
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from pgrelay.spark.mirrors.query_state import batch_started_at
from pgrelay.spark.mirrors.topic_ends import Lag

_BATCH_BUCKETS: Final = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)


class MirrorMetrics:
    """The metrics of one process's mirrors, on Prometheus's own registry or another."""

    def __init__(
        self, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives seconds since 1970."""
        at = registry or REGISTRY
        self._clock = clock
        self._records = Counter(
            "pgrelay_mirror_records",
            "Offsets taken in: changes, tombstones, and markers of Kafka's transactions",
            ["table"],
            registry=at,
        )
        self._batch = Histogram(
            "pgrelay_mirror_batch_seconds",
            "Duration of a micro-batch, of all tables together",
            buckets=_BATCH_BUCKETS,
            registry=at,
        )

        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(name, what, labels, registry=at)

        self._lsn = gauge(
            "pgrelay_mirror_lsn", "Commit LSN of the last change taken into the target", "table"
        )
        self._lag_bytes = gauge(
            "pgrelay_mirror_lag_bytes",
            "WAL from the last change in the target to the last in the topic",
            "table",
        )
        self._lag_records = gauge(
            "pgrelay_mirror_lag_records", "Offsets of the topic that are not taken in yet", "table"
        )
        self._lag_seconds = gauge(
            "pgrelay_mirror_lag_seconds",
            "Age of the oldest commit that the target lacks; 0 if it lacks none",
            "table",
        )
        self._held = gauge(
            "pgrelay_mirror_held_seconds",
            "Age of the oldest commit that waits for the rest of its transaction; 0 if none does",
        )
        self._running = gauge("pgrelay_mirror_running", "Queries that run")

    def set_running(self, queries: int) -> None:
        self._running.set(queries)

    def observe_batch(self, seconds: float) -> None:
        self._batch.observe(seconds)

    def add_records(self, table: str, records: int) -> None:
        self._records.labels(table).inc(records)

    def track_lag(self, table: str) -> None:
        """Until `set_lag`, show the age of a running batch as a table's lag, or NaN if none runs."""
        self._lag_seconds.labels(table).set_function(lambda: self._age(batch_started_at(table), math.nan)())

    def set_lag(self, table: str, lag: Lag) -> None:
        """Set how far a target is behind its topic."""
        behind_bytes = max(0, lag.newest_lsn - lag.lsn) if lag.records and lag.lsn else 0
        self._lsn.labels(table).set(lag.lsn)
        self._lag_bytes.labels(table).set(behind_bytes)
        self._lag_records.labels(table).set(lag.records)
        known = self._age(lag.oldest_s)
        # The running batch may take in commits that came after the lag was measured.
        self._lag_seconds.labels(table).set_function(
            lambda: max(known(), self._age(batch_started_at(table))())
        )

    def set_held_since(self, since_s: float | None) -> None:
        """Set the time of the oldest commit that waits for the rest of its transaction; None if none does."""
        self._held.set_function(self._age(since_s))

    def _age(self, since_s: float | None, otherwise: float = 0.0) -> Callable[[], float]:
        # Computed whenever the metric is read, so that it grows during a batch.
        return (lambda: otherwise) if since_s is None else (lambda: max(0.0, self._clock() - since_s))
