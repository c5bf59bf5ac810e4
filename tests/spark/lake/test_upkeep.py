"""Compaction and purge: rows stay, files are removed."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import Topic, change, rows, table

COLUMNS = (Column("id", "int4", key=True, encoding="integer"), Column("v", "text"))


def data_files(spark: SparkSession, name: str, using: Using) -> int:
    file = "_file" if using == "iceberg" else "_metadata.file_path"
    return spark.table(name).select(file).distinct().count()


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_compact_and_purge_keep_rows_and_remove_files(
    spark: SparkSession, topic: Topic, target: str, using: Using
) -> None:
    if using == "iceberg":  # Delta's catalog accepts no such name
        target = f"lake.`{target.removeprefix('lake.')}'s`"
    schema = table(topic.name, *COLUMNS)
    for lsn in (10, 20):
        topic.write(*(change("c", lsn, n, after={"id": lsn + n, "v": "a"}) for n in range(3)))
        topic.write(change("u", lsn + 5, after={"id": lsn, "v": "b"}))
        pg.apply_changes(topic.changes(schema), target, schema=schema, using=using)
    name = f"iceberg.{target}" if using == "iceberg" else target
    before, files = rows(spark.table(name)), data_files(spark, name, using)
    assert files > 1
    pg.compact(spark, target, using=using)
    assert data_files(spark, name, using) == 1
    assert rows(spark.table(name)) == before
    first = oldest(spark, name, using)
    assert spark.sql(f"SELECT * FROM {name} VERSION AS OF {first}").count() < len(before)
    with_unsafe_retention(spark, lambda: pg.purge(spark, target, using=using, older_than=timedelta(0)))
    assert rows(spark.table(name)) == before
    with pytest.raises(Exception, match=r"(?i)exist|cannot find|not be found|FILE"):
        spark.sql(f"SELECT v FROM {name} VERSION AS OF {first}").collect()


def test_versions_younger_than_many_centuries_stay(spark: SparkSession, target: str) -> None:
    """The year of that age has three digits."""
    spark.sql(f"CREATE TABLE iceberg.{target} USING iceberg AS SELECT 1 AS id")
    spark.sql(f"INSERT INTO iceberg.{target} VALUES (2)")
    pg.purge(spark, target, using="iceberg", older_than=timedelta(days=700_000))
    assert spark.table(f"iceberg.{target}.snapshots").count() == 2


def oldest(spark: SparkSession, name: str, using: Using) -> int:
    """The first version with rows."""
    if using == "delta":
        return 1
    return int(spark.table(f"{name}.snapshots").orderBy("committed_at").first().snapshot_id)  # type: ignore[union-attr]


def with_unsafe_retention(spark: SparkSession, act: Callable[[], None]) -> None:
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    try:
        act()
    finally:
        spark.conf.unset(check)


def test_a_failure_of_the_lake_is_one_line_that_names_the_target(
    spark: SparkSession, topic: Topic, target: str
) -> None:
    schema = table(topic.name, *COLUMNS)
    for lsn in (10, 20):
        topic.write(change("c", lsn, after={"id": lsn, "v": "a"}))
        pg.apply_changes(topic.changes(schema), target, schema=schema)
    for row in spark.table(target).select("_metadata.file_path").collect():
        Path(row["file_path"].removeprefix("file:")).unlink()
    with pytest.raises(pg.PgrelayError, match=rf"^compact {target}: [^\n]+$"):
        pg.compact(spark, target)


def test_a_purge_that_could_disturb_readers_is_refused(
    spark: SparkSession, topic: Topic, target: str
) -> None:
    schema = table(topic.name, *COLUMNS)
    topic.write(change("c", 10, after={"id": 1, "v": "a"}))
    pg.apply_changes(topic.changes(schema), target, schema=schema)
    with pytest.raises(SetupError, match="7 days or more"):
        pg.purge(spark, target, older_than=timedelta(days=1))


def test_upkeep_of_a_missing_table_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(SetupError, match=r"`lake`\.`nowhere`: no such table"):
        pg.compact(spark, "lake.nowhere")
