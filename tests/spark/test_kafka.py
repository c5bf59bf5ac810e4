"""The options of Spark's Kafka source."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.kafka import read_topics
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.fixture
def topic(handmade: HandmadeRelay) -> str:
    """A topic whose first 20 of 30 records are gone."""
    topic = handmade.table("a", ID)
    handmade.write("a", *(change("c", 10 + n, after={"id": n}) for n in range(30)))
    handmade.expire("a", 20)
    return topic


def test_a_partition_is_read_by_several_tasks(
    spark: SparkSession, handmade: HandmadeRelay, topic: str
) -> None:
    records = read_topics(spark, handmade.bootstrap, topic)
    assert records.rdd.getNumPartitions() == 2
    assert records.count() == 10


@pytest.mark.parametrize(("given", "longest_ms"), [({}, 10), ({"kafka.fetch.max.wait.ms": "7"}, 7)])
def test_a_task_does_not_wait_for_records_after_its_last(
    spark: SparkSession, given: dict[str, str], longest_ms: int
) -> None:
    """By default a broker would hold back Spark's question where the partition ends for half a second."""
    source: Any = read_topics(spark, "nowhere:1", "a", options=given, streaming=True)._jdf
    options = source.queryExecution().analyzed().extraOptions()
    assert int(options.get("kafka.fetch.max.wait.ms")) == longest_ms


@pytest.mark.parametrize(
    "given", [{"failOnDataLoss": "false"}, {"failondataloss": "FALSE", "minPartitions": "15"}]
)
def test_a_partition_with_missing_records_is_read_by_one_task(
    spark: SparkSession, handmade: HandmadeRelay, topic: str, given: dict[str, str]
) -> None:
    """Spark's tasks would take consumers from each other, and fail or skip existing records."""
    options = {**given, "startingOffsets": json.dumps({topic: {"0": 0}})}
    records = read_topics(spark, handmade.bootstrap, topic, options=options)
    assert records.rdd.getNumPartitions() == 1
    assert [row["offset"] for row in records.select("offset").collect()] == list(range(20, 30))


@pytest.mark.parametrize(
    "offsets",
    ["erliest", "17", "[]", '{"a": 17}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', "{", {"a": {"0": 1}}, 17],
)
def test_invalid_offsets_are_refused_before_a_query_runs(spark: SparkSession, offsets: Any) -> None:
    with pytest.raises(SetupError, match=r"^startingoffsets: .* is neither earliest, latest nor offsets.*'$"):
        read_topics(spark, "nowhere:1", "a", options={"startingoffsets": offsets}, streaming=True)


@pytest.mark.parametrize("offsets", ["latest", " Earliest ", '{"a": {"0": 17, "1": -2}}', "{}"])
def test_valid_offsets_are_passed_to_spark(spark: SparkSession, offsets: str) -> None:
    stream = read_topics(spark, "nowhere:1", "a", options={"startingOffsets": offsets}, streaming=True)
    assert stream.isStreaming
