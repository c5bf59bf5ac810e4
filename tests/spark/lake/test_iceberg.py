"""Tables in Iceberg's format alone."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructType

from pgrelay.spark.lake.lookup import lake_table
from tests.spark.lake.test_put_back import Lake, put_back


def test_iceberg_accepts_any_name(spark: SparkSession, prefix: str) -> None:
    table = lake_table(spark, f"lake.`{prefix}-größe`", "iceberg")
    table.create(StructType().add("id", IntegerType()))
    assert table.exists()


def test_old_iceberg_metadata_is_removed_automatically(
    spark: SparkSession, warehouse: Path, target: str
) -> None:
    table = lake_table(spark, target, "iceberg")
    table.create(StructType().add("id", IntegerType()))
    for number in range(24):
        table.set_properties({"number": str(number)})
    folder = warehouse / "iceberg" / target.replace(".", "/") / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) == 21


def test_expired_snapshots_tell_nothing(spark: SparkSession, target: str) -> None:
    lake = Lake(spark, target, "iceberg")
    first, second, third, fourth = (lake.commit() for _ in range(4))
    spark.sql(f"CALL iceberg.system.expire_snapshots(table => '{target}', snapshot_ids => ARRAY({third}))")
    # What led to the fourth is known no further than to the third.
    assert [lake.is_reverted(version) for version in (first, second, third, fourth)] == [False] * 4
    put_back(lake.table, second)
    assert [lake.is_reverted(version) for version in (first, second, third, fourth)] == [False] * 3 + [True]
