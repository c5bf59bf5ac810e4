"""What a mirror refuses before it starts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake import Using


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
