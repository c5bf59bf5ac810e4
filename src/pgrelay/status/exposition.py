"""/metrics: the relay's metrics in Prometheus's text format.

The help of each metric says what it is and, from "If" on, what to do about it.
"""

import math
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from pgrelay.metrics import MAX_TABLES, OTHER_TABLES, Lsns, Metrics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Exposition(Collector):
    """Every metric of one relay and its process, on a registry of their own. Safe to use from any thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def render(self) -> bytes:
        """All metrics as they are now; `CONTENT_TYPE` is the media type."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        lsns = self._metrics.lsns  # read once: the relay updates it meanwhile
        yield from self._positions(lsns)
        yield from self._lag(lsns)
        yield from self._slot()
        yield from self._volumes()
        yield from self._spool()
        yield from self._failures()
        yield InfoMetricFamily(
            "pgrelay",
            "This relay; always 1. If you need slot, prefix or version with another metric: join on it.",
            value=self._metrics.labels,
        )

    def _positions(self, lsns: Lsns) -> Iterator[Metric]:
        yield _gauge(
            "streaming",
            "1 while the stream flows from the slot to Kafka. If it stays 0: /readyz and the log say why.",
            self._metrics.streaming,
        )
        yield _gauge(
            "received_lsn",
            "Last WAL position received from Postgres. If it lags behind pgrelay_server_lsn: Kafka is slow, "
            "or the network from Postgres.",
            lsns.received,
        )
        yield _gauge(
            "acknowledged_lsn",
            "End of the last transaction up to which Kafka has acknowledged everything. If it stands still "
            "behind pgrelay_received_lsn: look at Kafka.",
            lsns.acknowledged,
        )
        yield _gauge(
            "confirmed_lsn",
            "WAL position last confirmed to Postgres, where a restart goes on. If it stands still while "
            "pgrelay_server_lsn grows: see docs/operations.md, PgrelayNotConfirming.",
            lsns.confirmed,
        )
        yield _gauge(
            "server_lsn",
            "End of the server's WAL, as last reported. If it stands still: Postgres is idle or away.",
            lsns.server,
        )

    def _lag(self, lsns: Lsns) -> Iterator[Metric]:
        yield _gauge(
            "lag_bytes",
            "WAL written by the server and not yet confirmed. If it grows: see pgrelay_lag_seconds, /readyz "
            "and the log; else the server's disk fills or the slot is lost (max_slot_wal_keep_size).",
            lsns.lag_bytes,
        )
        yield _gauge(
            "lag_seconds",
            "Age of the oldest commit that Kafka has not acknowledged (at most, if it has not come yet); "
            "0: there is none, NaN: nothing flows and none is known. If it grows: Kafka is slow or away, "
            "Postgres or the network is slow to send, or a transaction is very large.",
            self._metrics.lag_s(),
        )

    def _slot(self) -> Iterator[Metric]:
        yield _gauge(
            "slot_safe_wal_bytes",
            "WAL that the server may still write before it gives up the slot (max_slot_wal_keep_size); +Inf: "
            "no limit, NaN: not known. If it falls: see docs/operations.md, PgrelayWalBudget.",
            self._metrics.slot_safe_wal,
        )
        yield _gauge(
            "slot_retained_wal_bytes",
            "WAL that the server keeps for the slot; NaN: not known. If it grows without pgrelay_lag_bytes: "
            "an old transaction holds the slot, look for it in pg_stat_activity.",
            self._metrics.slot_retained_wal,
        )

    def _volumes(self) -> Iterator[Metric]:
        metrics = self._metrics
        records = CounterMetricFamily(
            "pgrelay_records_total",
            "Records given to the Kafka producer, by table and op (c, u, d, r, t, m); repeats count again. "
            "If it stands still while the tables change: see pgrelay_streaming. "
            f"After {MAX_TABLES} tables, all others count as {OTHER_TABLES}.",
            labels=["table", "op"],
        )
        for labels, count in list(metrics.records.items()):
            records.add_metric(labels, count)
        yield records
        yield _counter(
            "transactions_total",
            "Transactions acknowledged by Kafka. If it stands still while records grow: one is very large.",
            metrics.transactions,
        )
        yield HistogramMetricFamily(
            "pgrelay_delivery_latency_seconds",
            "Time from a transaction's commit to its acknowledgement by Kafka. If it grows: see "
            "pgrelay_inflight_records. Keep the clocks of server and relay synchronized.",
            buckets=[(_bound(seconds), count) for seconds, count in metrics.latencies()],
            sum_value=metrics.latency_sum_s,
        )
        yield _gauge(
            "inflight_records",
            "Records that Kafka has not acknowledged yet. If it stays high: Kafka is slow.",
            metrics.inflight_records,
        )
        yield _gauge(
            "open_transactions",
            "Transactions received in part, waiting for their commit. If it stays high: look for old ones in "
            "pg_stat_activity.",
            metrics.open_transactions,
        )
        yield _gauge(
            "published_tables",
            "Tables whose rows Postgres sends; NaN: not known. If it falls: a table was dropped, renamed or "
            "taken out of the publication; the log names it.",
            metrics.published_tables,
        )

    def _spool(self) -> Iterator[Metric]:
        metrics = self._metrics
        free, size = metrics.spool_disk
        yield _gauge(
            "spool_size_bytes",
            "Bytes of open transactions on disk now. If it nears the disk's size: give the spool more space.",
            metrics.spooled_bytes,
        )
        yield _gauge(
            "spool_disk_free_bytes",
            "Free space on the disk of transactions.spool_dir; NaN: not known. If it nears 0: free or add "
            "space; the relay pauses when the disk is full.",
            free,
        )
        yield _gauge(
            "spool_disk_size_bytes",
            "Size of the disk of transactions.spool_dir; NaN: not known. If it is smaller than your largest "
            "transactions: give the spool a larger disk.",
            size,
        )
        yield _counter(
            "spooled_bytes_total",
            "Bytes of open transactions written to disk. If it keeps growing: raise transactions.memory_mb.",
            metrics.spooled_bytes_total,
        )

    def _failures(self) -> Iterator[Metric]:
        metrics = self._metrics
        reconnects = CounterMetricFamily(
            "pgrelay_reconnects_total",
            "Retries after trouble, by where it was: postgres, kafka, registry, spool. If it keeps growing: "
            "/readyz and the log say why; a relay that waits for its slot counts every try.",
            labels=["end"],
        )
        for end, count in metrics.reconnects.items():
            reconnects.add_metric([end], count)
        yield reconnects
        yield _counter(
            "delivery_errors_total",
            "Records that Kafka refused for good. If it is not 0: the log names LSN, table and error.",
            metrics.delivery_errors,
        )
        dead_letters = CounterMetricFamily(
            "pgrelay_dead_letters_total",
            "Changes that could not be relayed and went to the dead letter topic, by table. If it is not 0: "
            "read that topic, whose headers name LSN, column and error.",
            labels=["table"],
        )
        for table, count in list(metrics.dead_letters.items()):
            dead_letters.add_metric([table], count)
        yield dead_letters


def _gauge(name: str, help_text: str, value: float | None) -> Metric:
    """`value` is None if it is not known."""
    return GaugeMetricFamily(f"pgrelay_{name}", help_text, value=math.nan if value is None else value)


def _bound(seconds: float) -> str:
    return "+Inf" if math.isinf(seconds) else str(seconds)


def _counter(name: str, help_text: str, value: int) -> Metric:
    return CounterMetricFamily(f"pgrelay_{name}", help_text, value=value)
