"""Unreadable records of all topics go to one table."""

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import RecordError
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.mirrors.batches import Batches, Reading, Writing
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema_topic import SchemaTopic
from tests.spark.handmade_records import Row, as_read, change, changes_of, rows, table

ID = Column("id", "int4", key=True, encoding="integer")
TOPICS = [f"app.public.{name}" for name in "abc"]


def test_rejects_of_several_tables_in_one_batch_share_a_table(spark: SparkSession, target: str) -> None:
    # Delta allows neither two creations of a table nor two merges at once.
    writing = Writing(
        {topic: f"{target}_{topic[-1]}" for topic in TOPICS}, using="delta", corrupt_to=f"{target}_corrupt"
    )
    batches = Batches(SchemaTopic("", "app"), Reading(), writing)
    schemas = {topic: table(topic, ID) for topic in TOPICS}
    for number in range(2):  # the first creates the table
        bad = [change("c", 10 + n, after={"id": 2**31}) for n in range(number + 1)]
        parts = [as_read(spark, topic, bad).where(f"offset = {number}") for topic in TOPICS]
        batches.apply_topics(parts[0].union(parts[1]).union(parts[2]).persist(), schemas)
    found = rows(spark.table(f"{target}_corrupt"), "topic", "offset")
    assert found == {(topic, offset): 1 for topic in TOPICS for offset in range(2)}


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_reject_at_the_offset_of_an_earlier_one_is_kept_too(
    spark: SparkSession, target: str, using: Using
) -> None:
    """For example in a topic that was deleted and re-created."""
    schema, aside = table(TOPICS[0], ID), f"{target}_corrupt"
    for number in (2**31, 2**32, 2**32):
        bad = changes_of(spark, schema, [change("c", 10, after={"id": number})])
        # Its own target, since applied records are skipped.
        pg.apply_changes(bad, f"{target}_{number}", schema=schema, using=using, corrupt_to=aside)
    kept = lake_table(spark, aside, using).rows()
    assert rows(kept, "offset") == {(0,): 2}
    assert rows(kept.selectExpr("corrupt LIKE '%4294967296%'")) == {(True,): 1, (False,): 1}


@pytest.mark.parametrize("row", [{"id": 1, "new": 2}, {"id": 1}])
def test_changed_columns_are_refused_with_the_cure_to_reread_the_schema(
    spark: SparkSession, target: str, row: Row
) -> None:
    schema = table(TOPICS[0], ID, Column("old", "text"))
    message = r"partition 0 offset 0: columns .*; if the columns were changed, read table_schemas again"
    with pytest.raises(RecordError, match=message):
        pg.apply_changes(changes_of(spark, schema, [change("c", 10, after=row)]), target, schema=schema)


def test_a_number_that_can_not_be_read_even_as_text_is_refused_with_the_relays_setting(
    spark: SparkSession, target: str
) -> None:
    schema = table(TOPICS[0], ID, Column("n", "numeric", encoding="number"))
    changes = changes_of(spark, schema, [change("c", 10, after={"id": 1, "n": int("9" * 40)})])
    message = r"is not exactly a string, .* set records\.numeric: string .*, UPDATE its row, and send such"
    with pytest.raises(RecordError, match=message):
        pg.apply_changes(changes, target, schema=schema)
