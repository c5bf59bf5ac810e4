"""A query that is stopped in the middle of a batch, as a cell of a notebook does it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.spark.mirrors.under_way import under_way_since
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


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_query_that_is_stopped_during_a_batch_ends_without_an_error(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path, uncaught: Uncaught, using: Any
) -> None:
    topic = handmade.table("a", ID)
    handmade.write("a", *(change("c", 10, n, after={"id": n}) for n in range(3)))
    query = pg.mirror(
        spark,
        handmade.bootstrap,
        {topic: target},
        prefix=handmade.prefix,
        checkpoint=str(tmp_path / "checkpoint"),
        using=using,
    )
    wait_until(lambda: under_way_since(topic) is not None, "a batch")
    query.stop()
    assert query.exception() is None
    assert uncaught.errors == []
    handmade.mirror({"a": target}, using=using)
    name = target if using == "delta" else f"iceberg.{target}"
    assert rows(spark.table(name), "id") == {(n,): 1 for n in range(3)}
