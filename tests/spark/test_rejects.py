"""Records that can't be read go to one table, whichever topic they are of."""

import pytest
from pyspark.sql import SparkSession

from pgrelay.spark.columns import Column
from pgrelay.spark.lake import Using
from tests.spark.handmade import HandmadeRelay
from tests.spark.records import change, rows

ID = Column("id", "int4", key=True, encoding="integer")
TABLES = ("a", "b", "c")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_those_of_several_tables_in_one_batch(
    spark: SparkSession, handmade: HandmadeRelay, target: str, using: Using
) -> None:
    rejects = f"{target}_corrupt"
    kept = f"iceberg.{rejects}" if using == "iceberg" else rejects
    topics = [handmade.table(table, ID) for table in TABLES]
    for batch in range(2):  # the first makes the table
        for table in TABLES:
            sound, bad = {"id": batch}, {"id": 2**31}
            handmade.write(table, change("c", 10 + batch, 0, after=sound))
            handmade.write(table, change("c", 10 + batch, 1, after=bad))
        targets = {table: f"{target}_{table}" for table in TABLES}
        handmade.mirror(targets, corrupt_to=rejects, using=using)
    found = rows(spark.table(kept), "topic", "offset")
    assert found == {(topic, offset): 1 for topic in topics for offset in (1, 3)}
