"""A mirror's metrics."""

import json
import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from pgrelay.spark.mirrors import query_state
from pgrelay.spark.mirrors.batches import Batches
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.mirrors.listener import MirrorListener
from pgrelay.spark.mirrors.metrics import MirrorMetrics
from pgrelay.spark.mirrors.query_state import batch_started_at, held_since, track_batch
from pgrelay.spark.mirrors.topic_ends import Lag
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change

TABLE = {"table": "app.public.orders"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_lag_grows_until_it_is_caught_up() -> None:
    clock, registry = Clock(), CollectorRegistry()
    metrics = MirrorMetrics(registry, clock)
    metrics.set_lag(TABLE["table"], Lag(lsn=1000, newest_lsn=1500, records=7, oldest_s=90.0))
    assert registry.get_sample_value("pgrelay_mirror_lag_bytes", TABLE) == 500
    assert registry.get_sample_value("pgrelay_mirror_lag_records", TABLE) == 7
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 10
    clock.now = 130.0
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 40
    metrics.set_lag(TABLE["table"], Lag(lsn=1500, newest_lsn=1500, records=0, oldest_s=None))
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 0
    assert registry.get_sample_value("pgrelay_mirror_lag_bytes", TABLE) == 0
    assert registry.get_sample_value("pgrelay_mirror_lsn", TABLE) == 1500
    # The records of a long batch came after the last look.
    with track_batch("lake/_ck", [TABLE["table"]], clock):
        clock.now = 1000.0
        assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 870
    assert registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE) == 0


def test_the_lag_grows_during_a_long_first_batch() -> None:
    clock, registry = Clock(), CollectorRegistry()
    MirrorMetrics(registry, clock).track_lag(TABLE["table"])

    def lag() -> float | None:
        return registry.get_sample_value("pgrelay_mirror_lag_seconds", TABLE)

    assert math.isnan(lag() or 0)
    with track_batch("lake/_ck", [TABLE["table"]], clock):
        clock.now = 700.0
        assert lag() == 600
    assert math.isnan(lag() or 0)


def test_the_lag_of_a_query_without_new_records_comes_from_its_checkpoint(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.table("a", Column("id", "int4", key=True, encoding="integer"))
    handmade.write("a", *(change("c", 10 + n, after={"id": n}) for n in range(5)))
    query = handmade.mirror({"a": target})
    registry = CollectorRegistry()
    servers, labels = handmade.bootstrap, {"table": topic}
    listener = MirrorListener(spark, servers, {topic: target}, metrics=registry)
    assert math.isnan(registry.get_sample_value("pgrelay_mirror_lag_seconds", labels) or 0)
    listener.onQueryIdle(progressed("somebody else's", topic))
    assert math.isnan(registry.get_sample_value("pgrelay_mirror_lag_seconds", labels) or 0)
    listener.onQueryIdle(progressed(str(query.id), topic))
    for name, value in {"lag_seconds": 0, "lag_records": 0, "lsn": 14}.items():
        assert registry.get_sample_value(f"pgrelay_mirror_{name}", labels) == value
    handmade.write("a", change("c", 20, after={"id": 9}))
    listener.onQueryIdle(progressed(str(query.id), topic))
    assert registry.get_sample_value("pgrelay_mirror_lag_records", labels) == 1


def test_held_rows_age_until_their_transaction_is_whole() -> None:
    clock, registry = Clock(), CollectorRegistry()
    metrics = MirrorMetrics(registry, clock)
    metrics.set_held_since(90.0)
    clock.now = 130.0
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == 40
    metrics.set_held_since(None)
    assert registry.get_sample_value("pgrelay_mirror_held_seconds") == 0


def listener_of(spark: SparkSession, topic: str) -> tuple[MirrorListener, CollectorRegistry]:
    """A listener without a broker, and so without a lag."""
    registry = CollectorRegistry()
    return MirrorListener(spark, "nowhere", {topic: "lake.a"}, metrics=registry), registry


def progressed(query: str, topic: str = "p.a", start: int | None = None, end: int = 5) -> Any:
    """Spark's event for a batch, and for the end of a query."""
    offsets = [None if at is None else json.dumps({topic: {"0": at}}) for at in (start, end)]
    source = SimpleNamespace(startOffset=offsets[0], endOffset=offsets[1])
    progress = SimpleNamespace(id=query, runId=query, batchId=1, durationMs={}, sources=[source])
    return SimpleNamespace(id=query, runId=query, exception="it failed", progress=progress)


def test_held_seconds_is_that_of_the_oldest_query_until_it_ends(spark: SparkSession) -> None:
    listener, registry = listener_of(spark, "p.a")
    holding, other = progressed("holding"), progressed("other")

    def held() -> float | None:
        return registry.get_sample_value("pgrelay_mirror_held_seconds")

    held_since["holding"] = time.time() - 30
    listener.onQueryProgress(holding)
    assert held() == pytest.approx(30, abs=20)
    listener.onQueryProgress(other)
    assert held() == pytest.approx(30, abs=20)
    listener.onQueryTerminated(other)
    assert held() == pytest.approx(30, abs=20)
    listener.onQueryTerminated(holding)
    assert held() == 0


def test_queries_that_began_long_ago_are_forgotten(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_state, "checkpoints", {})
    monkeypatch.setattr(query_state, "held_since", {"1": 5.0})
    monkeypatch.setattr(query_state, "_MAX_REMEMBERED", 2)
    checkpoint = Checkpoint(spark, "lake/_ck")
    for number in (1, 2, 1, 3, 4):
        query_state.remember_checkpoint(str(number), checkpoint)
    assert list(query_state.checkpoints) == ["3", "4"]
    assert not query_state.held_since


def test_queries_started_before_the_listener_are_counted(
    spark: SparkSession,
) -> None:
    listener, registry = listener_of(spark, "p.a")
    one, other = progressed("one"), progressed("other")

    def running(report: Callable[[Any], None], of: Any) -> float | None:
        report(of)
        return registry.get_sample_value("pgrelay_mirror_running")

    assert running(listener.onQueryProgress, one) == 1
    assert running(listener.onQueryIdle, one) == 1
    assert running(listener.onQueryTerminated, other) == 1  # a query that it never heard of
    assert running(listener.onQueryTerminated, one) == 0


def test_records_of_a_query_are_counted_from_its_start(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark does not report where a query's first batch begins, nor that a batch is running."""
    topic = handmade.table("a", Column("id", "int4", key=True, encoding="integer"))
    handmade.write("a", *(change("c", 10 + n, after={"id": n}) for n in range(5)))
    apply, seen = Batches.apply, list[bool]()

    def seeing(*given: Any) -> None:
        seen.extend(batch_started_at(each) is not None for each in (topic, "another"))
        apply(*given)

    monkeypatch.setattr(Batches, "apply", seeing)
    query = handmade.mirror({"a": target}, options={"startingOffsets": json.dumps({topic: {"0": 3}})})
    assert (seen, batch_started_at(topic)) == ([True, False], None)
    listener, registry = listener_of(spark, topic)
    for start, end, taken in ((None, 5, 2), (5, 12, 9), (12, 3, 9)):  # the last after a re-creation
        listener.onQueryProgress(progressed(str(query.id), topic, start, end))
        assert registry.get_sample_value("pgrelay_mirror_records_total", {"table": topic}) == taken
