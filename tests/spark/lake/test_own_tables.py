"""Tables of our own are written with every batch, for years: what old versions need is removed."""

from datetime import timedelta
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructType

from pgrelay.spark.lake import own_tables
from pgrelay.spark.lake.named import lake_table
from pgrelay.spark.lake.own_tables import OwnTable
from pgrelay.spark.lake.tables import Using
from tests.spark.handmade_records import rows
from tests.spark.lake.folders import age, log_of

ID = StructType().add("id", IntegerType())


def own_table(spark: SparkSession, target: str, using: Using = "delta") -> OwnTable:
    made = OwnTable.beside(lake_table(spark, target, using), "__own")
    made.create(ID)
    return made


def test_deltas_log_keeps_only_the_last_minutes(
    spark: SparkSession, warehouse: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta itself would keep all of the day, and list them in every batch."""
    monkeypatch.setattr("pgrelay.spark.lake.delta_log._EVERY", 10)
    own = own_table(spark, target)
    log = log_of(warehouse, f"{target}__own")
    for number in range(1, 20):
        own.set_properties({"number": str(number)})
    age(log, timedelta(minutes=20))
    before = list(log.glob("*.json"))
    own.set_properties({"number": "20"})
    assert len(before) == 20
    assert [path.name for path in log.glob("*.json")] == [f"{20:020d}.json"]
    assert own.properties()["number"] == "20"
    # Another session has only what is there.
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    assert own.properties()["number"] == "20"


def test_a_delta_that_lacks_the_call_keeps_its_log(
    spark: SparkSession, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is not public: another release, or a table of another catalog, may have none."""
    monkeypatch.setattr("pgrelay.spark.lake.delta_log._EVERY", 1)
    own = own_table(spark, target)

    def without_log(table: OwnTable) -> JavaObject:
        assert table == own
        bare: JavaObject = spark._jvm.java.lang.Object()  # type: ignore[union-attr]
        return bare

    monkeypatch.setattr(OwnTable, "loaded", without_log)
    own.set_properties({"number": "1"})
    monkeypatch.undo()
    assert own.properties()["number"] == "1"


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_files_that_only_old_versions_need_are_deleted(
    spark: SparkSession, warehouse: Path, target: str, using: Using, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_table(spark, target, using)
    for number in range(6):
        spark.createDataFrame([(number,)], ID).coalesce(1).writeTo(own.name).append()
        own.run(f"DELETE FROM {own.name} WHERE id < {number}")

    def files() -> int:
        found = warehouse.rglob(f"{target.partition('.')[2]}__own/**/*.parquet")
        return len([path for path in found if "_delta_log" not in path.parts])

    assert files() == 6
    own.remove_old_files()
    assert files() == 6, "a reader may be at an old version"
    monkeypatch.setattr(own_tables, "_KEPT", timedelta(0))
    if using == "delta":
        own.set_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    own.remove_old_files()
    assert files() == 1
    assert list(rows(own.rows())) == [(5,)]
