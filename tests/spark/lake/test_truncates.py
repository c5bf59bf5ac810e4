"""Truncates read in one partition before earlier changes in another."""

from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from pgrelay.spark.lake.history import HistoryTarget
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import change, changes_of, rows, table

COLUMNS = [Column("id", "int4", key=True, encoding="integer"), Column("name", "text"), Column("big", "text")]
SCHEMA = table("app.public.t", *COLUMNS)

# By partition and LSN, in the order of reading.
CHANGES = [
    change("c", 10, after={"id": 1, "name": "a", "big": "x"}, partition=1),
    change("t", 20, partition=0),
    change("u", 15, after={"id": 1, "name": "b"}, unchanged=["big"], partition=1),
    change("c", 16, after={"id": 2, "name": "c", "big": None}, partition=1),
    change("t", 20, partition=1),
    change("c", 21, after={"id": 1, "name": "new", "big": None}, partition=1),
]
BATCHES = ["partition = 1 AND offset = 0", "partition = 0", "partition = 1 AND offset IN (1, 2)", "true"]


def test_changes_before_a_truncate_are_not_applied_after_it(spark: SparkSession, target: str) -> None:
    lake, changes = lake_table(spark, target, "iceberg"), changes_of(spark, SCHEMA, CHANGES)
    seen = []
    for batch in BATCHES:
        Target(lake, SCHEMA).apply(changes.where(batch), SCHEMA)
        seen.append(rows(lake.rows()))
    assert seen == [Counter([(1, "a", "x")]), Counter(), Counter(), Counter([(1, "new", None)])]


@pytest.mark.parametrize("using", ["delta", "iceberg"])
@pytest.mark.parametrize("kind", ["key", "whole rows", "appended"])
def test_a_truncate_and_what_follows_are_one_commit(
    spark: SparkSession, target: str, using: Using, kind: str
) -> None:
    """They may be one transaction, and no version may show half of it."""
    id_ = replace(COLUMNS[0], key=kind == "key")
    schema = table("app.public.t", id_, identity="full" if kind == "whole rows" else "default")
    made = [change("c", 10, n, after={"id": n}) for n in range(2)]
    changes = changes_of(spark, schema, [*made, change("t", 20, 0), change("c", 20, 1, after={"id": 1})])
    lake = lake_table(spark, target, using)
    for batch in ("offset < 2", "offset >= 2"):
        Target(lake, schema).apply(changes.where(batch), schema)
    counts = [spark.sql(f"SELECT * FROM {lake.name} VERSION AS OF {at}").count() for at in versions(lake)]
    assert counts[counts.index(2) :] == [2, 1]
    assert rows(lake.rows(), "id", "__seq") == Counter([(1, 1)])


def versions(lake: LakeTable) -> list[int]:
    """The versions, earliest first."""
    if lake.using == "delta":
        return [row.version for row in lake.spark.sql(f"DESCRIBE HISTORY {lake.name}").collect()][::-1]
    snapshots = lake.spark.table(f"{lake.name}.snapshots").orderBy("committed_at")
    return [row.snapshot_id for row in snapshots.collect()]


def test_history_gets_late_changes_from_before_a_truncate(spark: SparkSession, target: str) -> None:
    lake, changes = lake_table(spark, target, "iceberg"), changes_of(spark, SCHEMA, CHANGES)
    for batch in BATCHES:
        HistoryTarget(lake, SCHEMA).apply(changes.where(batch), SCHEMA)
    assert rows(lake.rows(), "id", "name", "big", "__commit_lsn", "__end_lsn") == Counter(
        [
            (1, "a", "x", 10, 15),
            (1, "b", "x", 15, 20),
            (2, "c", None, 16, 20),
            (1, "new", None, 21, None),
        ]
    )
    ends = lake.rows().where("id = 1").orderBy("__commit_lsn").collect()
    assert ends[0]["__valid_to"] == ends[1]["__valid_from"]
