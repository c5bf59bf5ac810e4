"""A dropped target is gone for good, whichever session created it, and can be created again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from tests.spark.earlier import EARLIER
from tests.spark.handmade_records import Topic, change, rows, table

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_dropped_target_and_its_positions_can_be_created_again(
    topic: Topic, target: str, using: Using
) -> None:
    spark = topic.spark
    topic.write(change("c", 10, after={"id": 1}), change("c", 11, after={"id": 2}))
    first = table(topic.name, ID, systemid="1")
    pg.apply_changes(topic.changes(first).where("offset = 0"), target, schema=first, using=using)
    pg.drop(spark, target, using=using)
    with pytest.raises(SetupError, match="no such table"):
        pg.drop(spark, target, using=using)
    # The rows, the positions and the cluster are gone.
    again = table(topic.name, ID, systemid="2")
    pg.apply_changes(topic.changes(again), target, schema=again, using=using)
    name = f"iceberg.{target}" if using == "iceberg" else target
    assert rows(spark.table(name)) == {(1,): 1, (2,): 1}


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_what_is_remembered_is_dropped_by_its_targets_name(topic: Topic, target: str, using: Using) -> None:
    """As after a DROP TABLE, which leaves it."""
    topic.write(change("c", 10, after={"id": 1}))
    schema = table(topic.name, ID)
    pg.apply_changes(topic.changes(schema), target, schema=schema, using=using)
    name = f"iceberg.{target}" if using == "iceberg" else target
    topic.spark.sql(f"DROP TABLE {name}")
    with pytest.raises(SetupError, match="without __positions in its name: drop that one, whether it still"):
        pg.drop(topic.spark, f"{target}__positions", using=using)
    pg.drop(topic.spark, target, using=using)
    assert not topic.spark.catalog.tableExists(f"{name}__positions")


def test_dropping_an_earlier_sessions_target_leaves_no_files(spark: SparkSession, warehouse: Path) -> None:
    """The session found the target's folder when it started. Another table can then take its name."""
    folder = warehouse / "earlier.db"
    assert {path.name for path in folder.iterdir()} == {"t", "t__positions"}
    pg.drop(spark, EARLIER)
    assert not spark.catalog.tableExists(EARLIER)
    assert list(folder.iterdir()) == []
    spark.sql(f"CREATE TABLE {EARLIER} (other int) USING delta")
    assert spark.table(EARLIER).columns == ["other"]
    assert spark.table(EARLIER).count() == 0


def test_a_table_that_is_not_a_target_is_not_dropped(spark: SparkSession, target: str) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS lake")
    spark.sql(f"CREATE TABLE {target} (id int) USING delta")
    with pytest.raises(SetupError, match="was not made by pgrelay"):
        pg.drop(spark, target)
    assert spark.catalog.tableExists(target)


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_dropped_rejects_table_can_be_created_again(topic: Topic, target: str, using: Using) -> None:
    schema, rejects = table(topic.name, ID), f"{target}_corrupt"
    for number in range(2):
        topic.write(change("c", 10 + number, after={"id": 2**31}))
        changes = topic.changes(schema).where(f"offset = {number}")
        pg.apply_changes(changes, target, schema=schema, using=using, corrupt_to=rejects)
        pg.drop(topic.spark, rejects, using=using)
        with pytest.raises(SetupError, match="no such table"):
            pg.drop(topic.spark, rejects, using=using)
