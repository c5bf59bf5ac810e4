"""What the relay counts, for Prometheus and for the status page.

One `Metrics` per relay, on a registry of its own. The relay counts in plain integers and hands over sums once
a batch; no method here is meant to be called per row. LSNs are byte positions, as numbers; what is not known
is NaN.
"""

import math
import shutil
import time
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

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

End = Literal["postgres", "kafka", "registry", "spool"]

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

# Seconds: from a commit acknowledged at once to one that waited out a broker's restart.
_LATENCY_BUCKETS: Final = (
    *(0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)

# Each table has a series for every op that it sees. Past so many tables, the rest are counted together.
MOST_TABLES: Final = 500
OTHER_TABLES: Final = "(other)"


@dataclass(frozen=True, slots=True)
class Lsns:
    """The four LSNs: the end of the server's WAL, and how far each stage has come; None: not known yet."""

    server: int | None = None
    received: int | None = None
    acknowledged: int | None = None
    confirmed: int | None = None

    @property
    def lag_bytes(self) -> int | None:
        """WAL that the server has written and that is not confirmed; None: not known yet."""
        if self.server is None or self.confirmed is None:
            return None
        return max(0, self.server - self.confirmed)


class Metrics:
    """Every metric of one relay. Safe to render from any thread while the relay updates it.

    `lsns`, `tables` (records by table) and the like are what was last told, for the status page.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        # A _created series beside each counter doubles their number and tells nothing here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._clock = clock
        self._is_streaming: Callable[[], bool] = lambda: False
        self._oldest_commit_s: float | None = None
        self.tables: Tally[str] = Tally()
        self._named: set[str] = set()
        self.transactions = 0
        self.inflight_records = 0
        self.spooled_bytes = 0
        self.slot_retained_wal = math.nan
        self.slot_safe_wal = math.nan
        self._make_lsns()
        self._make_slot()
        self._make_volumes()
        self._make_spool()
        self._make_failures()

    def _make_lsns(self) -> None:
        self._streaming = self._gauge(
            "streaming",
            "1 while the stream flows from the slot to Kafka. If it stays 0: /readyz and the log say why.",
        )
        self._received_lsn = self._gauge(
            "received_lsn",
            "Last WAL position received from Postgres. If it lags behind pgrelay_server_lsn: Kafka is slow, "
            "or the network from Postgres.",
        )
        self._acknowledged_lsn = self._gauge(
            "acknowledged_lsn",
            "End of the last transaction up to which Kafka has acknowledged everything. If it stands still "
            "behind pgrelay_received_lsn: look at Kafka.",
        )
        self._confirmed_lsn = self._gauge(
            "confirmed_lsn",
            "WAL position last confirmed to Postgres, from which a restart goes on. If it stands still while "
            "pgrelay_server_lsn grows: see docs/operations.md, PgrelayNotConfirming.",
        )
        self._server_lsn = self._gauge(
            "server_lsn",
            "End of the server's WAL, as it last told. If it stands still: Postgres is idle or away.",
        )
        self._lag_bytes = self._gauge(
            "lag_bytes",
            "WAL written by the server and not yet confirmed. If it grows: see pgrelay_lag_seconds, /readyz "
            "and the log; unchecked, the server's disk fills or the slot is lost (max_slot_wal_keep_size).",
        )
        self._gauge(
            "lag_seconds",
            "Age of the oldest commit that Kafka has not acknowledged; 0: there is none, NaN: nothing flows "
            "and none is known. If it grows: Kafka is slow or away, or a transaction is too large for the "
            "rate.",
        ).set_function(self.lag_s)
        self._set_lsns(Lsns())

    def _make_slot(self) -> None:
        self._slot_safe_wal = self._gauge(
            "slot_safe_wal_bytes",
            "WAL that the server may still write before it gives up the slot (max_slot_wal_keep_size); +Inf: "
            "no limit, NaN: not known. If it falls: see docs/operations.md, PgrelayWalBudget.",
        )
        self._slot_safe_wal.set(math.nan)
        self._slot_retained_wal = self._gauge(
            "slot_retained_wal_bytes",
            "WAL that the server keeps for the slot; NaN: not known. If it grows without pgrelay_lag_bytes: "
            "an old transaction holds the slot, look for it in pg_stat_activity.",
        )
        self._slot_retained_wal.set(math.nan)

    def _make_volumes(self) -> None:
        self._records = Counter(
            "pgrelay_records_total",
            "Records given to the Kafka producer, by table and op (c, u, d, r, t, m); repeats count again. "
            "If it stands still while the tables change: see pgrelay_streaming. "
            f"Past {MOST_TABLES} tables the rest are {OTHER_TABLES}.",
            ["table", "op"],
            registry=self.registry,
        )
        self._records_of: dict[tuple[str, str], Counter] = {}
        self._transactions = self._counter(
            "transactions_total",
            "Transactions acknowledged by Kafka. If it stands still while records grow: one is very large.",
        )
        self._delivery_latency = Histogram(
            "pgrelay_delivery_latency_seconds",
            "From a transaction's commit to its acknowledgement by Kafka. If it grows: see "
            "pgrelay_inflight_records. Keep the clocks of server and relay in step.",
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._inflight_records = self._gauge(
            "inflight_records",
            "Records that Kafka has not acknowledged yet. If it stays high: Kafka is slow.",
        )
        self._open_transactions = self._gauge(
            "open_transactions",
            "Transactions received in part, waiting for their commit. If it stays high: look for old ones in "
            "pg_stat_activity.",
        )
        self._published_tables = self._gauge(
            "published_tables",
            "Tables that Postgres sends rows of. If it falls: one was dropped, renamed or taken out of the "
            "publication; the log names it. NaN: not known.",
        )
        self._published_tables.set(math.nan)

    def _make_spool(self) -> None:
        self._spooled_bytes = self._gauge(
            "spool_size_bytes",
            "Bytes of open transactions on disk now. If it nears the disk: raise its size.",
        )
        self._spool_free = self._gauge(
            "spool_disk_free_bytes",
            "Free on the disk that holds transactions.spool_dir; NaN: not known. If it nears 0: free or add "
            "space, the relay pauses when there is none.",
        )
        self._spool_disk = self._gauge(
            "spool_disk_size_bytes",
            "Size of the disk that holds transactions.spool_dir; NaN: not known. If it is less than your "
            "largest transactions: give the spool a larger one.",
        )
        self._spooled_bytes_total = self._counter(
            "spooled_bytes_total",
            "Bytes of open transactions written to disk. If it never rests: raise transactions.memory_mb.",
        )

    def _make_failures(self) -> None:
        reconnects = Counter(
            "pgrelay_reconnects_total",
            "Tries to go on after trouble, by the end that had it: postgres, kafka, registry, spool. If it "
            "keeps growing: /readyz and the log say why; a relay that waits for its slot counts every try.",
            ["end"],
            registry=self.registry,
        )
        # All are there from the start, so that a first reconnection shows as an increase.
        self._reconnects: dict[End, Counter] = {end: reconnects.labels(end) for end in get_args(End)}
        self._delivery_errors = self._counter(
            "delivery_errors_total",
            "Records that Kafka refused for good. If it is not 0: the log names LSN, table and error.",
        )
        self._dead_letters = Counter(
            "pgrelay_dead_letters_total",
            "Changes that could be no record and went to the dead letters' topic, by table. If it is not 0: "
            "read that topic, whose headers name LSN, column and error.",
            ["table"],
            registry=self.registry,
        )
        self._info = Info(
            "pgrelay",
            "This relay; always 1. If you need slot, prefix or version beside another metric: join on it.",
            registry=self.registry,
        )

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(f"pgrelay_{name}", help_text, registry=self.registry)

    def _counter(self, name: str, help_text: str) -> Counter:
        return Counter(f"pgrelay_{name}", help_text, registry=self.registry)

    def lag_s(self) -> float:
        """Age in seconds of the oldest commit that Kafka has not acknowledged; 0 when there is none.

        nan where that is not known: nothing flows, and there may be commits that we have not seen.
        """
        oldest_s = self._oldest_commit_s
        if oldest_s is None:
            return 0.0 if self._is_streaming() else math.nan
        return max(0.0, self._clock() - oldest_s)

    def describe(self, **labels: str) -> None:
        """Set the labels of `pgrelay_info`: version, slot, prefix."""
        self._info.info(labels)

    def watch(self, streaming: Callable[[], bool], spool: Path) -> None:
        """Look, whenever metrics are read, whether the stream flows, and at the disk under `spool`."""
        self._is_streaming = streaming
        self._streaming.set_function(lambda: float(streaming()))
        self._spool_free.set_function(lambda: disk_bytes(spool)[0])
        self._spool_disk.set_function(lambda: disk_bytes(spool)[1])

    def set_lsns(self, *, received: int, acknowledged: int, confirmed: int, server: int) -> None:
        """Set the four LSNs, and the lag in bytes that follows from them."""
        self._set_lsns(Lsns(server, received, acknowledged, confirmed))

    def set_slot(self, *, server: int, confirmed: int | None) -> None:
        """Set what the server itself says, also while nothing flows; `confirmed` is None without a slot."""
        self._set_lsns(replace(self.lsns, server=server, confirmed=confirmed))

    def _set_lsns(self, lsns: Lsns) -> None:
        self.lsns = lsns
        self._received_lsn.set(_or_nan(lsns.received))
        self._acknowledged_lsn.set(_or_nan(lsns.acknowledged))
        self._confirmed_lsn.set(_or_nan(lsns.confirmed))
        self._server_lsn.set(_or_nan(lsns.server))
        self._lag_bytes.set(_or_nan(lsns.lag_bytes))

    def set_slot_wal(self, *, retained: float, safe: float) -> None:
        """Set the bytes of WAL kept for the slot, and until it is lost; inf: no limit, nan: not known."""
        self.slot_retained_wal, self.slot_safe_wal = retained, safe
        self._slot_retained_wal.set(retained)
        self._slot_safe_wal.set(safe)

    def set_oldest_commit(self, unix_us: int | None) -> None:
        """Set the commit time (microseconds since 1970) of the oldest unacknowledged transaction, if any.

        The lag in seconds is taken from it whenever metrics are read, so it grows while the relay waits.
        """
        self._oldest_commit_s = None if unix_us is None else unix_us / 1_000_000

    def set_inflight_records(self, records: int) -> None:
        self.inflight_records = records
        self._inflight_records.set(records)

    def set_open_transactions(self, transactions: int) -> None:
        self._open_transactions.set(transactions)

    def set_published_tables(self, tables: int) -> None:
        self._published_tables.set(tables)

    def set_spooled_bytes(self, on_disk: int) -> None:
        """Set the bytes of open transactions on disk now."""
        self.spooled_bytes = on_disk
        self._spooled_bytes.set(on_disk)

    def add_dead_letters(self, table: str, count: int) -> None:
        """Count records of a table, `schema.table`, that were set aside."""
        self._dead_letters.labels(self._shown(table)).inc(count)

    def add_spooled_bytes(self, written: int) -> None:
        """Count bytes of open transactions written to disk."""
        self._spooled_bytes_total.inc(written)

    def add_records(self, table: str, op: str, n: int) -> None:
        """Count n records given to the producer; `table` is `schema.table`, `op` the record's letter."""
        table = self._shown(table)
        self.tables[table] += n
        counter = self._records_of.get((table, op))
        if counter is None:
            counter = self._records_of[table, op] = self._records.labels(table, op)
        counter.inc(n)

    def _shown(self, table: str) -> str:
        """The label for a table: its own name, unless it came past the limit."""
        if table not in self._named and len(self._named) >= MOST_TABLES:
            return OTHER_TABLES
        self._named.add(table)
        return table

    def add_transactions(self, n: int) -> None:
        """Count n acknowledged transactions."""
        self.transactions += n
        self._transactions.inc(n)

    def observe_delivery(self, commit_us: int) -> None:
        """Record that a transaction committed at `commit_us` (since 1970) is acknowledged now."""
        self._delivery_latency.observe(max(0.0, self._clock() - commit_us / 1_000_000))

    def add_reconnect(self, end: End) -> None:
        self._reconnects[end].inc()

    def add_delivery_errors(self, n: int) -> None:
        """Count n records that Kafka refused for good."""
        self._delivery_errors.inc(n)

    def latencies(self) -> list[tuple[float, float]]:
        """The delivery latency's histogram: (upper bound in seconds, transactions up to it), in order."""
        samples = (sample for family in self._delivery_latency.collect() for sample in family.samples)
        return [(float(s.labels["le"]), s.value) for s in samples if s.name.endswith("_bucket")]

    def render(self) -> bytes:
        """All metrics in Prometheus's text format; `CONTENT_TYPE` is its media type."""
        return generate_latest(self.registry)


def _or_nan(number: int | None) -> float:
    return math.nan if number is None else number


def disk_bytes(folder: Path) -> tuple[float, float]:
    """Free and total bytes of the disk under a folder; nan where there is no such folder (yet)."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return math.nan, math.nan
    return float(usage.free), float(usage.total)
