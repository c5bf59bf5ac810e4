"""Tables of the lake, in both formats."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructType, TimestampType

from pgrelay.spark.lake import iceberg
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from tests.spark.handmade_records import rows
from tests.spark.jobs import counted_jobs

ID = StructType().add("id", IntegerType())


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_properties_are_read_back_as_set(spark: SparkSession, target: str, using: Using) -> None:
    """Spark redacts values that contain a word that it takes for a sign of a secret."""
    table = lake_table(spark, target, using)
    table.create(ID, {"pgrelay.topic": "app.public.auth_tokens"})
    table.set_properties({"pgrelay.mirror": "`lake`.`urls`"})
    found = table.properties()
    assert (found["pgrelay.topic"], found["pgrelay.mirror"]) == ("app.public.auth_tokens", "`lake`.`urls`")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_version_takes_no_job_and_nor_does_a_new_table_without_rows(
    spark: SparkSession, target: str, using: Using
) -> None:
    table = lake_table(spark, target, using)
    with counted_jobs(spark) as jobs:
        table.create(ID)
        assert (table.is_empty(), table.version()) == (True, 0)
    assert jobs.count == 0
    table.run(f"INSERT INTO {table.name} VALUES (1)")
    with counted_jobs(spark) as jobs:
        version = table.version()
    assert jobs.count == 0
    assert not table.is_empty()
    assert spark.sql(f"SELECT id FROM {table.name} VERSION AS OF {version}").collect() == [(1,)]
    table.run(f"DELETE FROM {table.name}")
    assert table.is_empty()
    assert table.version() != version


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_table_without_a_namespace_has_properties(spark: SparkSession, prefix: str, using: Using) -> None:
    table = lake_table(spark, prefix, using)
    table.create(ID, {"pgrelay.topic": "app.public.orders"})
    assert table.properties()["pgrelay.topic"] == "app.public.orders"


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_timestamps_have_a_zone_under_any_session_setting(
    spark: SparkSession, target: str, using: Using
) -> None:
    columns = StructType().add("at", TimestampType()).add("ats", ArrayType(TimestampType()))
    table = lake_table(spark, target, using)
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        table.create(columns)
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert table.rows().schema == columns


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_files_that_only_old_versions_of_a_table_of_our_own_need_are_deleted(
    spark: SparkSession, warehouse: Path, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written with every batch, for years."""
    own = lake_table(spark, target, using).companion("__own")
    own.create(ID)
    for number in range(6):
        own.run(f"INSERT INTO {own.name} VALUES ({number})")
        own.run(f"DELETE FROM {own.name} WHERE id < {number}")

    def files() -> int:
        found = warehouse.rglob(f"{target.partition('.')[2]}__own/**/*.parquet")
        return len([path for path in found if "_delta_log" not in path.parts])

    assert files() == 6
    own.remove_old_files()
    assert files() == 6, "a reader may be at an old version"
    monkeypatch.setattr(iceberg, "INTERNAL_RETENTION", timedelta(0))
    if using == "delta":
        own.set_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    own.remove_old_files()
    assert files() == 1
    assert list(rows(own.rows())) == [(5,)]
