"""How Spark executes the reading of records."""

from pyspark.sql import DataFrame

from pgrelay.spark.records.avro_records import AvroRecords
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import Topic, as_read, table
from tests.spark.records.test_avro_records import text, writer_schema
from tests.spark.records.test_read_changes import ID

# Users' conditions: on what the record says of itself, on a column, and on all columns.
CONDITIONS = ("op = 'u' AND commit_lsn > 7", "key.id > 7 AND after.n > 7", "corrupt IS NULL")


def test_large_plans_are_not_compiled_into_one_method(topic: Topic) -> None:
    """It would be too large for HotSpot with a dozen columns, and the read take three times as long."""
    changes = topic.changes(table(topic.name, ID, Column("big", "text"), Column("n", "int8")))
    steps = [line.strip(" :+-") for line in plan(changes).splitlines() if "Project [" in line]
    assert len(steps) > 3
    assert [step[:20] for step in steps if not step.startswith("Project")] == []


def test_a_condition_repeats_no_parse(topic: Topic) -> None:
    """By itself Spark would have 425 parses of each record, in place of 3, for the last of them."""
    changes = topic.changes(table(topic.name, ID, Column("big", "text"), Column("n", "int8")))
    parses = plan(changes).count("from_json(")
    assert [plan(changes.where(c)).count("from_json(") for c in CONDITIONS] == [parses] * len(CONDITIONS)


def test_a_condition_repeats_no_decoding_of_avro(topic: Topic) -> None:
    records = AvroRecords(table(topic.name, ID, text("n")), {1: writer_schema("n")}, None)
    changes = records.changes(as_read(topic.spark, topic.name, []))
    assert [plan(changes.where(c)).count("from_avro(") for c in CONDITIONS] == [1] * len(CONDITIONS)


def plan(changes: DataFrame) -> str:
    return str(changes._jdf.queryExecution().executedPlan())
