"""Key changes without their large values: what is refused, and under which key it is reported."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from pgrelay.errors import RecordError
from pgrelay.spark.lake.batch import summarize
from pgrelay.spark.lake.history import HistoryTarget
from pgrelay.spark.lake.latest import keyed_rows
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.lost_values import refuse_lost_values, with_nulls
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import Message, change, changes_of, rows, table

SCHEMA = table("app.public.t", Column("id", "int4", key=True, encoding="integer"), Column("big", "text"))

# From relays that write keys, and from those that don't.
SPLIT = [change("d", 12, 0, before={"id": 1}), change("c", 12, 1, after={"id": 2}, unchanged=["big"])]
WHOLE = [change("u", 12, 0, before={"id": 1}, after={"id": 2}, unchanged=["big"])]


def changes(spark: SparkSession, messages: list[Message]) -> DataFrame:
    return changes_of(spark, SCHEMA, [change("d", 11, before={"id": 2}), *messages])


@pytest.mark.parametrize("moved", [SPLIT, WHOLE], ids=["split", "whole"])
def test_a_lost_value_is_refused_under_its_new_key_only(spark: SparkSession, moved: list[Message]) -> None:
    batch = summarize(changes(spark, moved), SCHEMA)
    assert batch.has_lost_values
    nulled = with_nulls(batch)
    lost = keyed_rows(nulled, more=("lost",)).where("size(lost) > 0")
    assert rows(lost, "`row:id`") == {(2,): 1}
    with pytest.raises(RecordError, match=r"LSN 0/C: the key of the row .*:2} was changed, .* big was not"):
        refuse_lost_values(nulled)


def test_a_key_with_a_time_outside_pythons_range_is_named_in_the_error(
    spark: SparkSession, target: str
) -> None:
    schema = table(SCHEMA.topic, Column("at", "timestamptz", key=True, encoding="iso"), Column("big", "text"))
    key = {"at": "0001-01-01T00:00:00Z"}
    kept = Target(lake_table(spark, target, "iceberg"), schema)
    history = HistoryTarget(lake_table(spark, f"{target}_history", "iceberg"), schema)
    for op in ("c", "u"):
        lacking = changes_of(spark, schema, [change(op, 12, after=key, unchanged=["big"])])
        for each in (kept, history):
            with pytest.raises(RecordError, match=r"row {.at.:.0001-01-01T00:00:00.* large value"):
                each.apply(lacking, schema)


def test_an_update_without_a_key_change_may_omit_a_large_value(spark: SparkSession) -> None:
    kept = change("u", 12, before={"id": 1}, after={"id": 1}, unchanged=["big"])
    assert not summarize(changes(spark, [kept]), SCHEMA).has_lost_values
