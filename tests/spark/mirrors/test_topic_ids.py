"""Topics that were deleted and re-created while a mirror uses them."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.schemas.columns import Column
from tests.integration.topics import create_topic, delete_topic
from tests.integration.waiting import wait_until
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change, rows

ID = Column("id", "int4", key=True, encoding="integer")
ONCE = {"failOnDataLoss": "false"}


@pytest.fixture
def target(prefix: str) -> str:
    return f"iceberg.lake.{prefix}"


def read(handmade: HandmadeRelay, target: str) -> str:
    """Table a's topic, after a mirror has read its row of id 1."""
    topic = handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.mirror({"a": target})
    return topic


def recreate(handmade: HandmadeRelay, table: str, *ids: int) -> None:
    """Re-create the topic, with a row for each of these ids."""
    topic = handmade.topic(table)
    delete_topic(handmade.bootstrap, topic)
    create_topic(handmade.bootstrap, topic)
    handmade.write(table, *(change("c", 20 + number, after={"id": number}) for number in ids))


def ids_by_now(checkpoint: Checkpoint) -> dict[str, str]:
    """The ids; none in the moment in which the mirror replaces them."""
    try:
        return checkpoint.topic_ids()
    except Py4JJavaError:
        return {}


def test_a_recreated_topic_is_not_read_from_the_old_ones_end(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    topic = read(handmade, target)
    recreate(handmade, "a", 2, 3)
    anew = (
        rf"^{topic}: deleted and re-created, .*{tmp_path}/checkpoint read it, .*: mirror with a new checkpoi"
    )
    for _ in range(2):
        with pytest.raises(SetupError, match=anew):
            handmade.mirror({"a": target})
    handmade.mirror({"a": target}, checkpoint="new")
    assert rows(spark.table(target), "id") == {(1,): 1, (2,): 1, (3,): 1}
    # Or it is, once the option is given.
    handmade.mirror({"a": target}, options=ONCE)
    handmade.mirror({"a": target})


def test_a_deleted_topic_is_not_waited_for(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    topic = read(handmade, target)
    delete_topic(handmade.bootstrap, topic)
    gone = rf"^{topic}: not there \(deleted, .*\), though the checkpoint {tmp_path}/checkpoint has read it: "
    with pytest.raises(SetupError, match=gone):
        handmade.mirror({"a": target})
    handmade.mirror({"a": target}, options=ONCE)
    create_topic(handmade.bootstrap, topic)
    handmade.write("a", change("c", 20, after={"id": 2}))
    handmade.mirror({"a": target}, checkpoint="new")
    assert rows(spark.table(target), "id") == {(1,): 1, (2,): 1}


def test_a_recreated_topic_that_was_not_read_is_accepted(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    for table in ("a", "b"):
        handmade.table(table, ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    targets = {table: f"{target}_{table}" for table in ("a", "b")}
    handmade.mirror(targets)
    recreate(handmade, "b", 2)
    handmade.mirror(targets)
    assert rows(spark.table(f"{target}_b"), "id") == {(2,): 1}


def test_a_checkpoint_without_topic_ids_gets_the_present_ones(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    topic = read(handmade, target)
    checkpoint = Checkpoint(spark, str(tmp_path / "checkpoint"))
    kept = checkpoint.topic_ids()
    assert kept.keys() == {topic}
    for file in (tmp_path / "checkpoint").glob("*pgrelay*"):
        file.unlink()
    handmade.mirror({"a": target})
    assert checkpoint.topic_ids() == kept


def test_ids_of_topics_created_while_the_query_runs_are_kept(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    handmade.table("a", ID)
    checkpoint = Checkpoint(spark, str(tmp_path / "checkpoint"))
    targets = {table: f"{target}_{table}" for table in ("a", "b")}
    with handmade.mirroring(targets, options={"kafka.metadata.max.age.ms": "500"}) as query:
        topic = handmade.table("b", ID)
        handmade.write("b", change("c", 10, after={"id": 1}))
        wait_until(lambda: topic in ids_by_now(checkpoint), "the id of the new topic")
        query.processAllAvailable()
    recreate(handmade, "b", 2, 3)
    with pytest.raises(SetupError, match=rf"^{topic}: deleted and re-created"):
        handmade.mirror(targets)
