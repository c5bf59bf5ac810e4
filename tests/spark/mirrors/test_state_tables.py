"""What a mirror of whole transactions keeps in its own tables."""

import pytest
from pyspark.sql import SparkSession

from pgrelay.errors import PgrelayError
from pgrelay.spark.mirrors.state_tables import StateTables


def test_a_driver_that_wakes_up_behind_another_does_not_move_the_position_back(
    spark: SparkSession, prefix: str
) -> None:
    targets = {f"{prefix}.public.a": f"lake.{prefix}"}
    old, new = (StateTables.of(spark, prefix, "12345678", targets, "iceberg") for _ in range(2))
    for number, driver in enumerate((old, new)):
        driver.create(targets, number)
    new.set_until(20)
    with pytest.raises(PgrelayError, match=r"__position_12345678`: another mirror .* from LSN 0/0 on: end"):
        old.set_until(10)
    new.set_until(30)
    assert (old.until, new.until) == (0, 30)
