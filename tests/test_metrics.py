"""The metrics that Prometheus scrapes."""

import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pgrelay.metrics import MAX_TABLES, OTHER_TABLES, Lsns, Metrics
from pgrelay.status.exposition import Exposition

NOW_S = 1_800_000_000.0


class Clock:
    """Unix seconds that stand still until a test sets them."""

    now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """The sample as a scrape sees it; None if there is none."""
    for family in text_string_to_metric_families(Exposition(metrics).render().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


def us(seconds: float) -> int:
    return round(seconds * 1_000_000)


def test_the_lag_in_bytes_is_the_unconfirmed_wal(metrics: Metrics) -> None:
    metrics.set_lsns(received=400, acknowledged=300, confirmed=200, server=500)
    assert value(metrics, "pgrelay_received_lsn") == 400
    assert value(metrics, "pgrelay_acknowledged_lsn") == 300
    assert value(metrics, "pgrelay_confirmed_lsn") == 200
    assert value(metrics, "pgrelay_server_lsn") == 500
    assert value(metrics, "pgrelay_lag_bytes") == 300
    assert metrics.lsns == Lsns(server=500, received=400, acknowledged=300, confirmed=200)


def test_the_lag_in_bytes_is_never_negative(metrics: Metrics) -> None:
    metrics.set_lsns(received=0, acknowledged=0, confirmed=200, server=0)
    assert value(metrics, "pgrelay_lag_bytes") == 0


def test_the_lag_in_seconds_grows_while_a_commit_waits(metrics: Metrics, clock: Clock) -> None:
    metrics.set_oldest_commit(us(NOW_S - 3))
    assert value(metrics, "pgrelay_lag_seconds") == 3
    clock.now_s += 2
    assert value(metrics, "pgrelay_lag_seconds") == 5


def test_the_lag_in_seconds_is_0_when_all_flows_and_nothing_waits(metrics: Metrics, tmp_path: Path) -> None:
    metrics.set_sources(lambda: True, tmp_path)
    assert value(metrics, "pgrelay_lag_seconds") == 0
    metrics.set_oldest_commit(us(NOW_S - 3))
    metrics.set_oldest_commit(None)
    assert value(metrics, "pgrelay_lag_seconds") == 0


def test_the_lag_in_seconds_is_nan_while_nothing_flows(metrics: Metrics, tmp_path: Path) -> None:
    metrics.set_sources(lambda: False, tmp_path)
    assert math.isnan(value(metrics, "pgrelay_lag_seconds") or 0)
    metrics.set_oldest_commit(us(NOW_S - 3))
    assert value(metrics, "pgrelay_lag_seconds") == 3


def test_the_slots_lag_is_known_while_nothing_flows(metrics: Metrics) -> None:
    metrics.set_slot(server=500, confirmed=200)
    assert value(metrics, "pgrelay_lag_bytes") == 300
    assert math.isnan(value(metrics, "pgrelay_received_lsn") or 0)
    metrics.set_slot(server=500, confirmed=None)
    assert math.isnan(value(metrics, "pgrelay_lag_bytes") or 0)


def test_a_server_clock_ahead_of_ours_gives_no_negative_times(metrics: Metrics) -> None:
    metrics.set_oldest_commit(us(NOW_S + 60))
    metrics.observe_delivery(us(NOW_S + 60))
    assert value(metrics, "pgrelay_lag_seconds") == 0
    assert value(metrics, "pgrelay_delivery_latency_seconds_sum") == 0


def test_records_are_added_in_bulk_by_table_and_op(metrics: Metrics) -> None:
    metrics.add_records("public.orders", "c", 3)
    metrics.add_records("public.orders", "c", 4)
    metrics.add_records("public.orders", "d", 1)
    assert value(metrics, "pgrelay_records_total", table="public.orders", op="c") == 7
    assert value(metrics, "pgrelay_records_total", table="public.orders", op="d") == 1


def test_tables_beyond_the_limit_are_counted_together(metrics: Metrics) -> None:
    for number in range(MAX_TABLES + 2):
        metrics.add_records(f"public.t{number}", "c", 1)
    metrics.add_records("public.t0", "c", 1)
    assert value(metrics, "pgrelay_records_total", table="public.t0", op="c") == 2
    assert value(metrics, "pgrelay_records_total", table=OTHER_TABLES, op="c") == 2
    assert len(metrics.tables) == MAX_TABLES + 1


def test_dead_letters_of_tables_beyond_the_limit_are_counted_together(metrics: Metrics) -> None:
    for number in range(MAX_TABLES + 2):
        metrics.add_dead_letters(f"public.t{number}", 1)
    metrics.add_dead_letters("public.t0", 1)
    assert value(metrics, "pgrelay_dead_letters_total", table="public.t0") == 2
    assert value(metrics, "pgrelay_dead_letters_total", table=OTHER_TABLES) == 2


def test_unknown_values_are_nan(metrics: Metrics) -> None:
    lsns = (f"{stage}_lsn" for stage in ("server", "received", "acknowledged", "confirmed"))
    slot = ("slot_safe_wal_bytes", "slot_retained_wal_bytes")
    for name in ("published_tables", *slot, *lsns, "lag_bytes", "lag_seconds"):
        assert math.isnan(value(metrics, f"pgrelay_{name}") or 0)


def test_the_slots_retained_and_safe_wal_are_gauges(metrics: Metrics) -> None:
    metrics.set_slot_wal(retained=8192.0, safe=4096.0)
    assert value(metrics, "pgrelay_slot_retained_wal_bytes") == 8192
    assert value(metrics, "pgrelay_slot_safe_wal_bytes") == 4096
    metrics.set_slot_wal(retained=8192.0, safe=math.inf)
    assert value(metrics, "pgrelay_slot_safe_wal_bytes") == math.inf


def test_the_disk_is_read_at_every_scrape(metrics: Metrics, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    metrics.set_sources(lambda: spool.exists(), spool)
    assert value(metrics, "pgrelay_streaming") == 0
    assert math.isnan(value(metrics, "pgrelay_spool_disk_free_bytes") or 0)
    spool.mkdir()
    assert value(metrics, "pgrelay_streaming") == 1
    free, size = (value(metrics, f"pgrelay_spool_disk_{what}_bytes") for what in ("free", "size"))
    assert free is not None
    assert size is not None
    assert 0 <= free <= size


def test_delivery_latency_is_counted_per_transaction(metrics: Metrics) -> None:
    metrics.observe_delivery(us(NOW_S - 0.2))
    metrics.observe_delivery(us(NOW_S - 20))
    assert value(metrics, "pgrelay_delivery_latency_seconds_count") == 2
    assert value(metrics, "pgrelay_delivery_latency_seconds_sum") == pytest.approx(20.2)
    assert value(metrics, "pgrelay_delivery_latency_seconds_bucket", le="0.25") == 1
    assert value(metrics, "pgrelay_delivery_latency_seconds_bucket", le="30.0") == 2
    assert dict(metrics.latencies())[0.1] == 0
    assert metrics.latencies()[-1] == (math.inf, 2)


def test_latencies_below_two_milliseconds_have_fine_buckets(metrics: Metrics) -> None:
    for seconds in (0.0004, 0.0009, 0.0014, 0.0019):
        metrics.observe_delivery(us(NOW_S - seconds))
    assert [count for bound, count in metrics.latencies() if bound <= 0.002] == [1, 2, 3, 4]


def test_the_other_metrics_have_their_values(metrics: Metrics) -> None:
    metrics.transactions += 5
    metrics.inflight_records = 6
    metrics.open_transactions = 7
    metrics.published_tables = 3
    metrics.spooled_bytes = 8
    metrics.spooled_bytes_total += 9
    metrics.spooled_bytes_total += 1
    metrics.delivery_errors += 2
    assert value(metrics, "pgrelay_transactions_total") == 5
    assert value(metrics, "pgrelay_inflight_records") == 6
    assert value(metrics, "pgrelay_open_transactions") == 7
    assert value(metrics, "pgrelay_published_tables") == 3
    assert value(metrics, "pgrelay_spool_size_bytes") == 8
    assert value(metrics, "pgrelay_spooled_bytes_total") == 10
    assert value(metrics, "pgrelay_delivery_errors_total") == 2


def test_two_relays_share_nothing(metrics: Metrics) -> None:
    metrics.transactions += 1
    assert value(Metrics(), "pgrelay_transactions_total") == 0
