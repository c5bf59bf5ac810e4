"""How Spark executes the reading of records."""

from pathlib import Path

from pyspark.sql import DataFrame

from pgrelay import spark as pg
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Topic, change, table
from tests.spark.records.test_read_changes import ID

# Users' conditions: on what the record says of itself, on a column, and on all columns.
CONDITIONS = ("op = 'u' AND commit_lsn > 7", "key.id > 7 AND after.n > 7", "corrupt IS NULL")


def test_large_plans_are_not_compiled_into_one_method(topic: Topic) -> None:
    """It would be too large for HotSpot with a dozen columns, and the read take three times as long."""
    changes = topic.changes(table(topic.name, ID, Column("big", "text"), Column("n", "int8")))
    steps = [line.strip(" :+-") for line in plan(changes).splitlines() if "Project [" in line]
    assert len(steps) > 3
    assert [step[:20] for step in steps if not step.startswith("Project")] == []


def test_a_condition_repeats_no_parse(handmade: HandmadeRelay) -> None:
    """By itself Spark would have 425 parses of each record, in place of 3, for the last of them."""
    columns = ID, Column("big", "text"), Column("n", "int8")
    topic = handmade.table("t", *columns)
    changes = pg.read_changes(handmade.spark, handmade.bootstrap, topic, schema=table(topic, *columns))
    parses = plan(changes).count("from_json(")
    assert [plan(changes.where(c)).count("from_json(") for c in CONDITIONS] == [parses] * len(CONDITIONS)
    assert plan(changes.groupBy().count()).count("from_json(") == 0


def test_a_condition_on_a_stream_repeats_no_parse(handmade: HandmadeRelay, tmp_path: Path) -> None:
    columns = ID, Column("big", "text"), Column("n", "int8")
    topic = handmade.table("t", *columns)
    handmade.write("t", change("c", 10, after={"id": 8, "big": "", "n": 8}))
    known = table(topic, *columns)
    changes = pg.read_changes(handmade.spark, handmade.bootstrap, topic, schema=known, streaming=True)
    whole, selected, *filtered = (
        streamed(each, tmp_path / str(number)).count("from_json(")
        for number, each in enumerate(
            (changes, changes.select("after.n"), *(changes.where(c) for c in CONDITIONS))
        )
    )
    assert 0 < selected < whole
    assert filtered == [whole] * len(CONDITIONS)


def streamed(changes: DataFrame, checkpoint: Path) -> str:
    """The plan by which a stream's records, as far as there are any, are written."""
    writer = changes.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return str(query._jsq.explainInternal(False))


def plan(changes: DataFrame) -> str:
    return str(changes._jdf.queryExecution().executedPlan())
