"""A query that is stopped in the middle of a batch, as a cell of a notebook does it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.mirrors.batches import Batches
from pgrelay.spark.mirrors.query_state import batch_started_at
from pgrelay.spark.schemas.columns import Column
from tests.integration.waiting import wait_until
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change, rows

ID = Column("id", "int4", key=True, encoding="integer")


class Uncaught:
    """What ended threads of the JVM."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def uncaughtException(self, thread: Any, error: Any) -> None:  # noqa: N802
        self.errors.append(error.toString())

    class Java:
        implements = ("java.lang.Thread$UncaughtExceptionHandler",)


@pytest.fixture
def uncaught(spark: SparkSession) -> Iterator[Uncaught]:
    assert spark._jvm is not None
    threads = spark._jvm.java.lang.Thread
    before, uncaught = threads.getDefaultUncaughtExceptionHandler(), Uncaught()
    threads.setDefaultUncaughtExceptionHandler(uncaught)
    yield uncaught
    threads.setDefaultUncaughtExceptionHandler(before)


def following(
    handmade: HandmadeRelay, topic: str, target: str, folder: Path, using: Using = "delta"
) -> StreamingQuery:
    """A query that mirrors until it is stopped, with the checkpoint that `handmade` has."""
    return pg.mirror(
        handmade.spark,
        handmade.bootstrap,
        {topic: target},
        prefix=handmade.prefix,
        checkpoint=str(folder / "checkpoint"),
        using=using,
    )


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_query_that_is_stopped_during_a_batch_ends_without_an_error(
    spark: SparkSession,
    handmade: HandmadeRelay,
    target: str,
    tmp_path: Path,
    uncaught: Uncaught,
    using: Using,
) -> None:
    topic = handmade.table("a", ID)
    handmade.write("a", *(change("c", 10, n, after={"id": n}) for n in range(3)))
    query = following(handmade, topic, target, tmp_path, using)
    wait_until(lambda: batch_started_at(topic) is not None, "a batch")
    query.stop()
    assert query.exception() is None
    assert uncaught.errors == []
    handmade.mirror({"a": target}, using=using)
    name = target if using == "delta" else f"iceberg.{target}"
    assert rows(spark.table(name), "id") == {(n,): 1 for n in range(3)}


def test_so_does_one_with_apply_changes_in_a_foreach_batch_of_its_own(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path, uncaught: Uncaught
) -> None:
    topic = handmade.table("a", ID)
    handmade.write("a", *(change("c", 10, n, after={"id": n}) for n in range(3)))
    schema = pg.table_schemas(spark, handmade.bootstrap, prefix=handmade.prefix)[topic]
    stream = pg.read_changes(spark, handmade.bootstrap, topic, schema=schema, streaming=True)
    begun = threading.Event()

    def apply(batch: DataFrame, number: int) -> None:
        begun.set()
        pg.apply_changes(batch, target, schema=schema)

    writer = stream.writeStream.foreachBatch(apply).option("checkpointLocation", str(tmp_path))
    query = writer.start()
    wait_until(begun.is_set, "a batch")
    query.stop()
    assert query.exception() is None
    assert uncaught.errors == []
    again = writer.trigger(availableNow=True).start()
    again.awaitTermination()
    assert rows(spark.table(target), "id") == {(n,): 1 for n in range(3)}


def test_no_later_job_of_the_batch_runs_after_a_stop(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark cancels the jobs that run. A batch may be between two, in a thread that it does not interrupt."""
    topic = handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    begun, stopping = threading.Event(), threading.Event()
    cancelled: list[str] = []

    def apply_topic(batches: Batches, records: DataFrame, *given: Any, **more: Any) -> None:
        begun.set()
        wait_until(lambda: stopping.is_set() and not query.isActive, "the stop")

        def run() -> bool:
            try:
                records.count()
            except Exception as error:
                cancelled.append(str(error))
            return bool(cancelled)

        wait_until(run, "the end of the batch's jobs")

    monkeypatch.setattr(Batches, "apply_topic", apply_topic)
    query = following(handmade, topic, target, tmp_path)
    wait_until(begun.is_set, "a batch")
    stopping.set()
    query.stop()
    assert len(cancelled) == 1
    assert "SPARK_JOB_CANCELLED" in cancelled[0]
