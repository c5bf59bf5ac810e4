"""A target that is dropped is gone for good, whichever session made it, and can be made anew."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.columns import Column
from pgrelay.spark.lake import Using
from tests.spark.conftest import Topic
from tests.spark.options import OPTIONS
from tests.spark.records import change, rows, table

NewTopic = Callable[..., Topic]

ID = Column("id", "int4", key=True, encoding="integer")

# In a session of its own, which finds the target's folder; then another table of its name in its place.
_ELSEWHERE = """
import json, sys
from pgrelay import spark as pg
warehouse, options, target = sys.argv[1:]
spark = pg.session(warehouse, master="local[2]", options=json.loads(options))
assert spark.catalog.tableExists(target)
pg.drop(spark, target)
assert not spark.catalog.tableExists(target)
spark.sql(f"CREATE TABLE {target} (other int) USING delta")
assert spark.table(target).columns == ["other"]
assert spark.table(target).count() == 0
spark.sql(f"DROP TABLE {target}")
"""


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_target_and_what_is_remembered_of_it_are_made_anew(
    new_topic: NewTopic, target: str, using: Using
) -> None:
    topic = new_topic()
    spark = topic.spark
    topic.write(change("c", 10, after={"id": 1}), change("c", 11, after={"id": 2}))
    first = table(topic.name, ID, systemid="1")
    pg.apply_changes(topic.changes(first).where("offset = 0"), target, schema=first, using=using)
    pg.drop(spark, target, using=using)
    with pytest.raises(SetupError, match="no such table"):
        pg.drop(spark, target, using=using)
    # Neither the rows are there nor the positions nor the cluster.
    again = table(topic.name, ID, systemid="2")
    pg.apply_changes(topic.changes(again), target, schema=again, using=using)
    name = f"iceberg.{target}" if using == "iceberg" else target
    assert rows(spark.table(name)) == {(1,): 1, (2,): 1}


def test_a_target_of_an_earlier_session_leaves_no_files(
    new_topic: NewTopic, target: str, warehouse: Path
) -> None:
    topic = new_topic()
    schema = table(topic.name, ID)
    topic.write(change("c", 10, after={"id": 1}))
    pg.apply_changes(topic.changes(schema), target, schema=schema)
    folder = warehouse / "lake.db"
    name = target.removeprefix("lake.").lower()
    assert {path.name for path in folder.glob(f"{name}*")} == {name, f"{name}__positions"}
    arguments = [str(warehouse), json.dumps(OPTIONS), target]
    subprocess.run([sys.executable, "-c", _ELSEWHERE, *arguments], check=True, stdin=subprocess.DEVNULL)
    assert list(folder.glob(f"{name}*")) == []


def test_a_table_that_is_no_target_stays(spark: SparkSession, target: str) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS lake")
    spark.sql(f"CREATE TABLE {target} (id int) USING delta")
    with pytest.raises(SetupError, match="was not made by pgrelay"):
        pg.drop(spark, target)
    assert spark.catalog.tableExists(target)
