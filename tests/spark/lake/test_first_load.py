"""The first load of a target by two drivers: one that dies slowly, and its successor."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pgrelay.spark.lake.applied_positions import AppliedPositions
from pgrelay.spark.lake.batch import Batch
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.columns import Column
from tests.integration.waiting import wait_until
from tests.spark.handmade_records import Topic, change, rows, table

COLUMNS = (Column("id", "int4", key=True, encoding="integer"), Column("name", "text"))


def held_until(there: Path, started: Path, value: Expression) -> Expression:
    """A value that is available to a plan only when that file exists."""

    def wait(text: str) -> str:
        started.touch()
        while not there.exists():
            threading.Event().wait(0.02)
        return text

    return F.udf(wait, "string", useArrow=False)(value)


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_of_two_drivers_that_find_the_target_empty_one_fails(
    spark: SparkSession, topic: Topic, target: str, tmp_path: Path, using: Using
) -> None:
    schema, lake = table(topic.name, *COLUMNS), lake_table(spark, target, using)
    topic.write(change("c", 10, after={"id": 1, "name": "a"}))
    changes = topic.changes(schema)
    done, started = tmp_path / "done", tmp_path / "started"
    held = changes.withColumn("op", held_until(done, started, F.col("op")))
    one, other = Target(lake, schema), Target(lake, schema)
    lake.create(one.table_type(schema))
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(one.write, Batch(held, schema, AppliedPositions(topic.name)))
        try:
            wait_until(started.exists, "the slow driver writes")
            other.write(Batch(changes, schema, AppliedPositions(topic.name)))
        finally:
            done.touch()
        with pytest.raises(Exception, match=r"(?i)concurrent|conflict"):
            slow.result()
    assert rows(lake.rows()) == {(1, "a"): 1}
