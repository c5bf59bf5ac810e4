"""Tables in Delta's format alone: their creation, and what is kept of them."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructType

from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import LakeTable
from tests.spark.earlier import UNMADE
from tests.spark.lake.folders import age, log_of


def test_a_clone_has_rows_from_its_first_version_on(spark: SparkSession, target: str) -> None:
    table, clone = (lake_table(spark, name, "delta") for name in (target, f"{target}_clone"))
    table.create(StructType().add("id", IntegerType()))
    table.run(f"INSERT INTO {table.name} VALUES (1)")
    table.run(f"CREATE TABLE {clone.name} SHALLOW CLONE {table.name}")
    assert (clone.version(), clone.is_empty()) == (0, False)


def test_a_table_whose_creation_was_killed_is_created(spark: SparkSession, warehouse: Path) -> None:
    """It did not prevent the session from starting, either."""
    left = warehouse / "unmade.db" / "t" / "_delta_log" / f".{0:020}.json.1.tmp"
    assert left.exists()
    table = lake_table(spark, UNMADE, "delta")
    table.create(StructType().add("id", IntegerType()))
    assert table.exists()
    assert not left.exists()


def test_foreign_files_are_not_turned_into_a_table(spark: SparkSession, warehouse: Path) -> None:
    file = warehouse / "other.db" / "t" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    (file.parent / "_delta_log").mkdir()
    file.touch()
    with pytest.raises(AnalysisException, match="NON_EMPTY_LOCATION"):
        lake_table(spark, "other.t", "delta").create(StructType().add("id", IntegerType()))
    assert file.exists()


@pytest.mark.parametrize(("days", "kept"), [(3, True), (9, False)])
def test_old_entries_of_deltas_log_are_removed_automatically(
    spark: SparkSession, warehouse: Path, target: str, days: int, kept: bool
) -> None:
    made = lake_table(spark, target, "delta")
    made.create(StructType().add("id", IntegerType()))
    first = log_of(warehouse, target) / f"{0:020d}.json"
    _commit_until_a_checkpoint(made)
    age(first.parent, timedelta(days=days))
    _commit_until_a_checkpoint(made)
    assert first.exists() == kept
    assert made.properties()["number"] == "10"


@pytest.mark.parametrize("name", ["deletedFileRetentionDuration", "logRetentionDuration"])
def test_a_sessions_own_retention_stays(spark: SparkSession, target: str, name: str) -> None:
    """Delta refuses a log that is kept for less time than deleted files."""
    made = lake_table(spark, target, "delta")
    default = f"spark.databricks.delta.properties.defaults.{name}"
    spark.conf.set(default, "interval 30 days")
    try:
        made.create(StructType().add("id", IntegerType()))
        made.companion("__own").create(StructType().add("id", IntegerType()))
    finally:
        spark.conf.unset(default)
    found = {k: v for k, v in made.properties().items() if "Retention" in k}
    assert found == {f"delta.{name}": "interval 30 days"}


def _commit_until_a_checkpoint(table: LakeTable) -> None:
    """Delta writes one every ten commits, and removes what is too old then."""
    for number in range(11):
        table.set_properties({"number": str(number)})
