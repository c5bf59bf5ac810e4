"""Tables of the lake, in both formats."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructType, TimestampType

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.named import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from tests.spark.earlier import UNMADE
from tests.spark.handmade_records import Topic, change, rows, table
from tests.spark.jobs import counted_jobs


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_properties_are_read_back_as_set(spark: SparkSession, target: str, using: Using) -> None:
    """Spark redacts values that contain a word that it takes for a sign of a secret."""
    table = lake_table(spark, target, using)
    table.create(StructType().add("id", IntegerType()), {"pgrelay.topic": "app.public.auth_tokens"})
    table.set_properties({"pgrelay.mirror": "`lake`.`urls`"})
    found = table.properties()
    assert (found["pgrelay.topic"], found["pgrelay.mirror"]) == ("app.public.auth_tokens", "`lake`.`urls`")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_version_takes_no_job_and_nor_does_a_new_table_without_rows(
    spark: SparkSession, target: str, using: Using
) -> None:
    table = lake_table(spark, target, using)
    with counted_jobs(spark) as jobs:
        table.create(StructType().add("id", IntegerType()))
        assert (table.is_empty(), table.version()) == (True, 0)
    assert jobs.made == 0
    table.run(f"INSERT INTO {table.name} VALUES (1)")
    with counted_jobs(spark) as jobs:
        version = table.version()
    assert jobs.made == 0
    assert not table.is_empty()
    assert spark.sql(f"SELECT id FROM {table.name} VERSION AS OF {version}").collect() == [(1,)]
    table.run(f"DELETE FROM {table.name}")
    assert table.is_empty()
    assert table.version() != version


def test_a_clone_has_rows_from_its_first_version_on(spark: SparkSession, target: str) -> None:
    table, clone = (lake_table(spark, name, "delta") for name in (target, f"{target}_clone"))
    table.create(StructType().add("id", IntegerType()))
    table.run(f"INSERT INTO {table.name} VALUES (1)")
    table.run(f"CREATE TABLE {clone.name} SHALLOW CLONE {table.name}")
    assert (clone.version(), clone.is_empty()) == (0, False)


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_table_without_a_namespace_has_properties(spark: SparkSession, prefix: str, using: Using) -> None:
    table = lake_table(spark, prefix, using)
    table.create(StructType().add("id", IntegerType()), {"pgrelay.topic": "app.public.orders"})
    assert table.properties()["pgrelay.topic"] == "app.public.orders"


def test_a_table_whose_creation_was_killed_is_created(spark: SparkSession, warehouse: Path) -> None:
    """It did not prevent the session from starting, either."""
    left = warehouse / "unmade.db" / "t" / "_delta_log" / f".{0:020}.json.1.tmp"
    assert left.exists()
    table = lake_table(spark, UNMADE, "delta")
    table.create(StructType().add("id", IntegerType()))
    assert table.exists()
    assert not left.exists()


def test_a_table_can_be_created_by_its_full_name(spark: SparkSession, target: str) -> None:
    table = lake_table(spark, f"spark_catalog.{target}", "delta")
    table.create(StructType().add("id", IntegerType()))
    assert lake_table(spark, target, "delta").exists()


def test_foreign_files_are_not_turned_into_a_table(spark: SparkSession, warehouse: Path) -> None:
    file = warehouse / "other.db" / "t" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    (file.parent / "_delta_log").mkdir()
    file.touch()
    with pytest.raises(AnalysisException, match="NON_EMPTY_LOCATION"):
        lake_table(spark, "other.t", "delta").create(StructType().add("id", IntegerType()))
    assert file.exists()


@pytest.mark.parametrize("name", ["lake.my-orders", "`my lake`.orders", "spark_catalog.lake.`größe`"])
def test_a_name_that_the_sessions_catalog_refuses_is_refused(spark: SparkSession, name: str) -> None:
    with pytest.raises(SetupError, match="only letters from a to z, digits and _ in names"):
        lake_table(spark, name, "delta")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_catalog_that_the_session_lacks_is_refused(spark: SparkSession, using: Using) -> None:
    with pytest.raises(SetupError, match=r"no catalog 'glue': set spark\.sql\.catalog\.glue in its options"):
        lake_table(spark, "glue.lake.orders", using)


@pytest.mark.parametrize(
    ("name", "using", "only"),
    [("iceberg.lake.orders", "delta", "iceberg"), ("spark_catalog.lake.orders", "iceberg", "delta")],
)
def test_a_catalog_of_the_other_format_is_refused(
    spark: SparkSession, name: str, using: Using, only: str
) -> None:
    told = rf"^{name}: the catalog '.*' takes only {only} tables: write using='{only}', or .* for {using}$"
    with pytest.raises(SetupError, match=told):
        lake_table(spark, name, using)


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


def test_iceberg_accepts_any_name(spark: SparkSession, prefix: str) -> None:
    table = lake_table(spark, f"lake.`{prefix}-größe`", "iceberg")
    table.create(StructType().add("id", IntegerType()))
    assert table.exists()


def test_a_target_is_found_despite_views_and_the_current_database(
    spark: SparkSession, prefix: str, topic: Topic
) -> None:
    """For example after createOrReplaceTempView("orders") and USE in a notebook."""
    schema = table(topic.name, Column("id", "int4", key=True, encoding="integer"))
    spark.sql(f"CREATE DATABASE {prefix}_other")
    spark.range(5).createOrReplaceTempView(prefix)
    try:
        for number, use in enumerate([f"spark_catalog.{prefix}_other", "spark_catalog.default"]):
            spark.sql(f"USE {use}")
            topic.write(change("c", 10 + number, after={"id": number}))
            pg.apply_changes(topic.changes(schema), prefix, schema=schema)
            assert rows(spark.table(f"{use}.{prefix}"), "id") == {(n,): 1 for n in range(number + 1)}
        # The same in another catalog's database.
        made = lake_table(spark, f"{prefix}_other.{prefix}", "delta")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS iceberg.lake")
        spark.sql("USE iceberg.lake")
        assert lake_table(spark, prefix, "delta").name == f"`spark_catalog`.`default`.`{prefix}`"
        assert made.exists()
        assert made.properties()["pgrelay.topic"] == topic.name
        pg.compact(spark, prefix)
        pg.purge(spark, prefix)
        pg.drop(spark, prefix)
        assert made.exists()
    finally:
        spark.sql("USE spark_catalog.default")
        spark.catalog.dropTempView(prefix)
