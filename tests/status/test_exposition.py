"""The names, labels and help that Prometheus reads."""

import re

import pytest

from pgrelay.metrics import Metrics
from pgrelay.status.exposition import Exposition
from tests.test_metrics import value


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_the_names_and_types_of_metrics_are_as_promised(metrics: Metrics) -> None:
    text = Exposition(metrics).render().decode()
    assert re.findall(r"^# TYPE (pgrelay_\w+ \w+)$", text, re.MULTILINE) == [
        "pgrelay_streaming gauge",
        "pgrelay_received_lsn gauge",
        "pgrelay_acknowledged_lsn gauge",
        "pgrelay_confirmed_lsn gauge",
        "pgrelay_server_lsn gauge",
        "pgrelay_lag_bytes gauge",
        "pgrelay_lag_seconds gauge",
        "pgrelay_slot_safe_wal_bytes gauge",
        "pgrelay_slot_retained_wal_bytes gauge",
        "pgrelay_records_total counter",
        "pgrelay_transactions_total counter",
        "pgrelay_delivery_latency_seconds histogram",
        "pgrelay_inflight_records gauge",
        "pgrelay_open_transactions gauge",
        "pgrelay_published_tables gauge",
        "pgrelay_spool_size_bytes gauge",
        "pgrelay_spool_disk_free_bytes gauge",
        "pgrelay_spool_disk_size_bytes gauge",
        "pgrelay_spooled_bytes_total counter",
        "pgrelay_reconnects_total counter",
        "pgrelay_delivery_errors_total counter",
        "pgrelay_dead_letters_total counter",
        "pgrelay_info gauge",
    ]
    assert "_created" not in text
    assert "process_resident_memory_bytes" in text


def test_any_table_name_can_be_a_label(metrics: Metrics) -> None:
    metrics.add_records('a"b\\c\nd.é', "c", 1)
    assert value(metrics, "pgrelay_records_total", table='a"b\\c\nd.é', op="c") == 1


def test_every_metric_of_ours_has_advice_in_its_help(metrics: Metrics) -> None:
    relay = re.findall(r"^# HELP (pgrelay_\w+) (.*)$", Exposition(metrics).render().decode(), re.MULTILINE)
    assert relay
    assert [name for name, text in relay if not re.search(r"\bIf (it|you) ", text)] == []


def test_reconnections_to_every_end_are_exposed_from_the_start(metrics: Metrics) -> None:
    for end in ("kafka", "postgres", "registry", "spool"):
        assert value(metrics, "pgrelay_reconnects_total", end=end) == 0
    metrics.reconnects["postgres"] += 1
    assert value(metrics, "pgrelay_reconnects_total", end="postgres") == 1


def test_info_describes_the_relay(metrics: Metrics) -> None:
    metrics.set_labels(version="1.2", slot="pgrelay")
    assert value(metrics, "pgrelay_info", version="1.2", slot="pgrelay") == 1
