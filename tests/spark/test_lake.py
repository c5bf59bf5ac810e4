"""Tables of the lake, as both formats have them."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructType

from pgrelay.spark.lake import Using, lake_table


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_properties_are_read_as_they_were_set(spark: SparkSession, target: str, using: Using) -> None:
    """Spark shows none with a word in it by which it knows what is secret."""
    table = lake_table(spark, target, using)
    table.create(StructType().add("id", IntegerType()), {"pgrelay.topic": "app.public.auth_tokens"})
    table.set_properties({"pgrelay.mirror": "`lake`.`urls`"})
    found = table.properties()
    assert (found["pgrelay.topic"], found["pgrelay.mirror"]) == ("app.public.auth_tokens", "`lake`.`urls`")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_properties_of_a_table_without_a_namespace(spark: SparkSession, prefix: str, using: Using) -> None:
    table = lake_table(spark, prefix, using)
    table.create(StructType().add("id", IntegerType()), {"pgrelay.topic": "app.public.orders"})
    assert table.properties()["pgrelay.topic"] == "app.public.orders"
