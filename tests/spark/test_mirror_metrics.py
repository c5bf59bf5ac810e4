"""A mirror's metrics, and where a listener looks for its lag."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from pgrelay.spark.holding import holds
from pgrelay.spark.listener import MirrorListener
from pgrelay.spark.mirror_metrics import MirrorMetrics
from pgrelay.spark.topic_ends import _windows

TABLE = {"table": "app.public.orders"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_lag_grows_until_it_is_caught_up() -> None:
    clock, registry = Clock(), CollectorRegistry()
    metrics = MirrorMetrics(registry, clock)
    metrics.behind(TABLE["table"], lsn=1000, newest_lsn=1500, records=7, oldest_s=90.0)
    assert registry.get_sample_value("pgrelay_mirror_lag_bytes", TABLE) == 500
    assert registry.get_sample_value("pgrelay_mirror_lag_records", TABLE) == 7
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 10
    clock.now = 130.0
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 40
    metrics.behind(TABLE["table"], lsn=1500, newest_lsn=1500, records=0, oldest_s=None)
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 0
    assert registry.get_sample_value("pgrelay_mirror_lag_bytes", TABLE) == 0
    assert registry.get_sample_value("pgrelay_mirror_lsn", TABLE) == 1500


def test_what_waits_for_its_transaction_grows_older_until_that_is_whole() -> None:
    clock, registry = Clock(), CollectorRegistry()
    metrics = MirrorMetrics(registry, clock)
    metrics.held(90.0)
    clock.now = 130.0
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == 40
    metrics.held(None)
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == 0


def test_what_a_query_holds_back_is_told_until_it_ends(spark: SparkSession) -> None:
    registry = CollectorRegistry()
    listener = MirrorListener(spark, "nowhere", {"p.a": "lake.a"}, prefix="p", metrics=registry)
    source = SimpleNamespace(startOffset=None, endOffset='{"p.a": {"0": 5}}')
    progress: Any = SimpleNamespace(id="query", runId="run", batchId=1, durationMs={}, sources=[source])
    event: Any = SimpleNamespace(id="query", runId="run", exception="it failed", progress=progress)
    holds(spark, "query", time.time() - 30)
    listener.onQueryProgress(event)
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == pytest.approx(30, abs=20)
    other: Any = SimpleNamespace(id="other", runId="other", exception=None)
    listener.onQueryTerminated(other)
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == pytest.approx(30, abs=20)
    listener.onQueryTerminated(event)
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == 0


def test_a_few_offsets_around_the_reader_and_at_the_end_are_looked_at() -> None:
    assert _windows({0: 500, 1: 20}, {0: 1000, 1: 20}) == [{0: (490, 510), 1: (10, 20)}, {0: (990, 1000)}]


def test_windows_do_not_overlap() -> None:
    assert _windows({0: 4}, {0: 18}) == [{0: (0, 14)}, {0: (14, 18)}]


def test_an_empty_partition_is_not_read() -> None:
    assert _windows({0: 0}, {0: 0}) == []
