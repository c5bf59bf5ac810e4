"""Delta's log of a table of our own, which is written with every batch, for years."""

from datetime import timedelta
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructType

from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import LakeTable
from tests.spark.lake.folders import age, log_of


def own_table(spark: SparkSession, target: str) -> LakeTable:
    made = lake_table(spark, target, "delta").companion("__own")
    made.create(StructType().add("id", IntegerType()))
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

    def without_log(table: LakeTable) -> JavaObject:
        assert table == own
        bare: JavaObject = spark._jvm.java.lang.Object()  # type: ignore[union-attr]
        return bare

    monkeypatch.setattr(LakeTable, "load", without_log)
    own.set_properties({"number": "1"})
    monkeypatch.undo()
    assert own.properties()["number"] == "1"
