"""What a mirror refuses before it starts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake import Using, lake_table


@pytest.mark.parametrize(
    ("one", "other", "using"),
    [
        ("lake.orders", "lake.orders", "delta"),
        ("lake.orders", "lake.ORDERS", "delta"),
        ("lake.orders", "`lake`.`orders`", "delta"),
        ("lake.orders", "spark_catalog.lake.orders", "delta"),
        ("orders", "default.orders", "delta"),
        ("lake.orders", "iceberg.Lake.orders", "iceberg"),
    ],
)
def test_two_topics_share_no_target_under_any_spelling(
    spark: SparkSession, tmp_path: Path, one: str, other: str, using: Using
) -> None:
    targets = {"p.a": one, "p.b": other}
    with pytest.raises(SetupError, match=r"two topics share a target: p\.a has .* and p\.b has"):
        pg.mirror(spark, "nowhere", targets, prefix="p", checkpoint=str(tmp_path), using=using)


def test_columns_of_a_topic_that_is_not_mirrored_can_not_be_read_as_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match=r"text_columns: p\.typo is not mirrored; p\.a are"):
        pg.mirror(
            spark,
            "nowhere",
            {"p.a": "lake.a"},
            prefix="p",
            checkpoint=str(tmp_path),
            text_columns={"p.typo": ["at"]},
        )


@pytest.mark.parametrize("name", ["lake..orders", ".orders", "orders.", "a.b.c.d", ""])
def test_what_is_no_name_is_no_target(spark: SparkSession, name: str) -> None:
    with pytest.raises(SetupError, match="is no table's name"):
        lake_table(spark, name, "delta")
