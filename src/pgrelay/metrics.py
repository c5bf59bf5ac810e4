"""What the relay counts, for Prometheus.

One `Metrics` per relay, on a registry of its own. The relay counts in plain integers and hands over sums once
a batch; no method here is meant to be called per row. LSNs are byte positions, as numbers.
"""

import time
from collections.abc import Callable
from typing import Final, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

End = Literal["postgres", "kafka", "registry"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# Seconds: from a commit acknowledged at once to one that waited out a broker's restart.
_LATENCY_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """Every metric of one relay. Safe to render from any thread while the relay updates it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        # A _created series beside each counter doubles their number and tells nothing here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._clock = clock
        self._oldest_commit_s: float | None = None
        self._make_positions()
        self._make_volumes()
        self._make_failures()

    def _make_positions(self) -> None:
        self._received_lsn = self._gauge("received_lsn", "Last WAL position received from Postgres.")
        self._acknowledged_lsn = self._gauge(
            "acknowledged_lsn", "End of the last transaction up to which Kafka has acknowledged everything."
        )
        self._confirmed_lsn = self._gauge(
            "confirmed_lsn", "WAL position last confirmed to Postgres, from which a restart goes on."
        )
        self._server_lsn = self._gauge("server_lsn", "End of the server's WAL, as it last told.")
        self._lag_bytes = self._gauge(
            "lag_bytes",
            "WAL written by the server and not yet confirmed. If it grows: see pgrelay_lag_seconds, /readyz "
            "and the log; unchecked, the server's disk fills or the slot is lost (max_slot_wal_keep_size).",
        )
        self._gauge(
            "lag_seconds",
            "Age of the oldest commit that Kafka has not acknowledged; 0 when there is none. "
            "If it grows: Kafka is slow or away, or a transaction is too large for the rate.",
        ).set_function(self._lag_s)

    def _make_volumes(self) -> None:
        self._records = Counter(
            "pgrelay_records_total",
            "Records given to the Kafka producer, by table and op (c, u, d, r, t, m); repeats count again.",
            ["table", "op"],
            registry=self.registry,
        )
        self._records_of: dict[tuple[str, str], Counter] = {}
        self._transactions = self._counter("transactions_total", "Transactions acknowledged by Kafka.")
        self._delivery_latency = Histogram(
            "pgrelay_delivery_latency_seconds",
            "From a transaction's commit to its acknowledgement by Kafka. Keep the clocks of both in step.",
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._inflight_records = self._gauge(
            "inflight_records",
            "Records that Kafka has not acknowledged yet. If it stays high: Kafka is slow.",
        )
        self._open_transactions = self._gauge(
            "open_transactions", "Transactions received in part, waiting for their commit."
        )
        self._published_tables = self._gauge(
            "published_tables",
            "Tables that Postgres sends rows of. If it falls: one was dropped, renamed or taken out of the "
            "publication; the log names it.",
        )
        self._spooled_bytes = self._gauge(
            "spool_size_bytes",
            "Bytes of open transactions on disk now. If it nears the disk: raise its size.",
        )
        self._spooled_bytes_total = self._counter(
            "spooled_bytes_total",
            "Bytes of open transactions written to disk. If it never rests: raise transactions.memory_mb.",
        )

    def _make_failures(self) -> None:
        reconnects = Counter(
            "pgrelay_reconnects_total",
            "Connections made anew after trouble, by the end that had it. If it keeps growing: read the log.",
            ["end"],
            registry=self.registry,
        )
        # All are there from the start, so that a first reconnection shows as an increase.
        self._reconnects: dict[End, Counter] = {
            "postgres": reconnects.labels("postgres"),
            "kafka": reconnects.labels("kafka"),
            "registry": reconnects.labels("registry"),
        }
        self._delivery_errors = self._counter(
            "delivery_errors_total",
            "Records that Kafka refused for good. If it is not 0: the log names LSN, table and error.",
        )
        self._info = Info("pgrelay", "This relay; always 1.", registry=self.registry)

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(f"pgrelay_{name}", help_text, registry=self.registry)

    def _counter(self, name: str, help_text: str) -> Counter:
        return Counter(f"pgrelay_{name}", help_text, registry=self.registry)

    def _lag_s(self) -> float:
        oldest_s = self._oldest_commit_s
        return 0.0 if oldest_s is None else max(0.0, self._clock() - oldest_s)

    def describe(self, **labels: str) -> None:
        """Set the labels of `pgrelay_info`: version, slot, ..."""
        self._info.info(labels)

    def set_positions(self, *, received: int, acknowledged: int, confirmed: int, server: int) -> None:
        """Set the four LSNs, and the lag in bytes that follows from them."""
        self._received_lsn.set(received)
        self._acknowledged_lsn.set(acknowledged)
        self._confirmed_lsn.set(confirmed)
        self._server_lsn.set(server)
        self._lag_bytes.set(max(0, server - confirmed))

    def set_oldest_commit(self, unix_us: int | None) -> None:
        """Set the commit time (microseconds since 1970) of the oldest unacknowledged transaction, if any.

        The lag in seconds is taken from it whenever metrics are read, so it grows while the relay waits.
        """
        self._oldest_commit_s = None if unix_us is None else unix_us / 1_000_000

    def set_inflight_records(self, records: int) -> None:
        self._inflight_records.set(records)

    def set_open_transactions(self, transactions: int) -> None:
        self._open_transactions.set(transactions)

    def set_published_tables(self, tables: int) -> None:
        self._published_tables.set(tables)

    def set_spooled_bytes(self, on_disk: int) -> None:
        """Set the bytes of open transactions on disk now."""
        self._spooled_bytes.set(on_disk)

    def add_spooled_bytes(self, written: int) -> None:
        """Count bytes of open transactions written to disk."""
        self._spooled_bytes_total.inc(written)

    def add_records(self, table: str, op: str, n: int) -> None:
        """Count n records given to the producer; `table` is `schema.table`, `op` the record's letter."""
        counter = self._records_of.get((table, op))
        if counter is None:
            counter = self._records_of[table, op] = self._records.labels(table, op)
        counter.inc(n)

    def add_transactions(self, n: int) -> None:
        """Count n acknowledged transactions."""
        self._transactions.inc(n)

    def observe_delivery(self, commit_us: int) -> None:
        """Record that a transaction committed at `commit_us` (since 1970) is acknowledged now."""
        self._delivery_latency.observe(max(0.0, self._clock() - commit_us / 1_000_000))

    def add_reconnect(self, end: End) -> None:
        self._reconnects[end].inc()

    def add_delivery_errors(self, n: int) -> None:
        """Count n records that Kafka refused for good."""
        self._delivery_errors.inc(n)

    def render(self) -> bytes:
        """All metrics in Prometheus's text format; `CONTENT_TYPE` is its media type."""
        return generate_latest(self.registry)
