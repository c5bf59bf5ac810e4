"""Which table a name stands for."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructType

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import Topic, change, rows, table


def test_a_table_can_be_created_by_its_full_name(spark: SparkSession, target: str) -> None:
    table = lake_table(spark, f"spark_catalog.{target}", "delta")
    table.create(StructType().add("id", IntegerType()))
    assert lake_table(spark, target, "delta").exists()


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
    message = rf"^{name}: the catalog '.*' takes only {only} tables: write using='{only}', or .* for {using}$"
    with pytest.raises(SetupError, match=message):
        lake_table(spark, name, using)


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
