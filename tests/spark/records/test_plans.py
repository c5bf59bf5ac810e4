"""How Spark executes the reading of records."""

from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import Topic, table
from tests.spark.records.test_read_changes import ID


def test_large_plans_are_not_compiled_into_one_method(topic: Topic) -> None:
    """It would be too large for HotSpot with a dozen columns, and the read take three times as long."""
    changes = topic.changes(table(topic.name, ID, Column("big", "text"), Column("n", "int8")))
    plan = str(changes._jdf.queryExecution().executedPlan())
    steps = [line.strip(" :+-") for line in plan.splitlines() if "Project [" in line]
    assert len(steps) > 3
    assert [step[:20] for step in steps if not step.startswith("Project")] == []
