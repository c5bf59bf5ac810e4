"""A target that is missing although its checkpoint exists."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from tests.integration.topics import create_topic
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change, produce, rows

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.fixture
def target(prefix: str) -> str:
    return f"iceberg.lake.{prefix}"


def test_a_missing_target_is_not_recreated_without_its_earlier_rows(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    targets = {"a": f"{target}_a"}
    handmade.mirror(targets)
    spark.sql(f"DROP TABLE {target}_a")
    handmade.write("a", change("c", 11, after={"id": 2}))
    where = rf"_a` is not in the warehouse .*, but the checkpoint {tmp_path}/checkpoint .*using='iceberg'"
    with pytest.raises(SetupError, match=where):
        handmade.mirror(targets)


def refusal_of(query: StreamingQuery) -> str:
    """What a query ends with, which is a SetupError."""
    with pytest.raises(StreamingQueryException) as ended:
        query.awaitTermination()
    error = pg.query_error(ended.value)
    assert isinstance(error, SetupError)
    return str(error)


@pytest.mark.parametrize("query_function", [pg.mirror, pg.history])
def test_a_target_dropped_before_a_restarted_querys_first_batch_is_not_recreated(
    spark: SparkSession, handmade: HandmadeRelay, target: str, query_function: Callable[..., StreamingQuery]
) -> None:
    """A query without new records runs no batch, for hours."""
    handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.mirror({"a": target}, query_function=query_function)
    with handmade.mirroring({"a": target}, query_function=query_function) as query:
        query.processAllAvailable()
        pg.drop(spark, target, using="iceberg")
        handmade.write("a", change("c", 11, after={"id": 2}))
        message = refusal_of(query)
    assert f"{target.rpartition('.')[2]}` was dropped while the mirror ran: take a new" in message
    assert not spark.catalog.tableExists(target)


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_target_dropped_while_the_query_runs_is_told_as_such(
    spark: SparkSession, handmade: HandmadeRelay, prefix: str, using: Using
) -> None:
    """DROP TABLE leaves what is remembered beside it, as if nothing had happened."""
    target = f"iceberg.lake.{prefix}" if using == "iceberg" else f"lake.{prefix}"
    handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    with handmade.mirroring({"a": target}, using=using) as query:
        query.processAllAvailable()
        spark.sql(f"DROP TABLE {target}")
        handmade.write("a", change("c", 11, after={"id": 2}))
        message = refusal_of(query)
    cure = rf"{prefix}` was dropped while the mirror ran: call pgrelay\.spark\.drop\(.*, and take a new check"
    assert re.search(cure, message)


def test_a_missing_target_without_earlier_rows_is_created(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    # Another writer's records, from before the relay.
    other = handmade.topic("b")
    create_topic(handmade.bootstrap, other)
    produce(handmade.bootstrap, other, [change("c", 5, after={"id": 5})])
    targets = {"a": f"{target}_a", "b": f"{target}_b"}
    handmade.mirror(targets, options={"startingOffsets": "latest"})
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.mirror(targets)
    # A table announced since, and one mirrored since.
    handmade.table("b", ID, since=2)
    handmade.table("c", ID)
    for table in ("b", "c"):
        handmade.write(table, change("c", 20, after={"id": 2}))
    handmade.mirror(targets | {"c": f"{target}_c"})
    b, c = (rows(spark.table(f"{target}_{table}")) for table in ("b", "c"))
    assert b == c == {(2,): 1}


def test_aborted_records_do_not_count_as_read(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    create_topic(handmade.bootstrap, handmade.topic("b"))
    take_back(handmade.bootstrap, handmade.topic("b"))
    targets = {"a": f"{target}_a", "b": f"{target}_b"}
    for _ in range(2):
        handmade.mirror(targets)
    assert rows(spark.table(f"{target}_a")) == {(1,): 1}


def take_back(bootstrap: str, topic: str) -> None:
    """Abort a Kafka transaction with a record of the topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush()
    producer.abort_transaction()
