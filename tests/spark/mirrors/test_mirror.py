"""What a mirror refuses or warns about before it starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType
from structlog.testing import capture_logs

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.removed_topics import refuse_removed_topics
from pgrelay.spark.mirrors.topic_warnings import warn_of_topics
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema_topic import SchemaTopic
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.fixture
def target(prefix: str) -> str:
    return f"iceberg.lake.{prefix}"


@pytest.mark.parametrize(
    ("one", "other", "using"),
    [
        ("lake.orders", "lake.ORDERS", "delta"),
        ("lake.orders", "`lake`.`orders`", "delta"),
        ("lake.orders", "spark_catalog.lake.orders", "delta"),
        ("orders", "default.orders", "delta"),
        ("lake.orders", "iceberg.Lake.orders", "iceberg"),
    ],
)
def test_all_spellings_of_a_target_name_the_same_one(
    spark: SparkSession, one: str, other: str, using: Using
) -> None:
    assert lake_table(spark, one, using).canonical_name() == lake_table(spark, other, using).canonical_name()


def test_two_topics_may_not_share_a_target(spark: SparkSession, tmp_path: Path) -> None:
    targets = {"p.a": "lake.orders", "p.b": "lake.ORDERS"}
    with pytest.raises(SetupError, match=r"two topics share a target: p\.a has .* and p\.b has"):
        pg.mirror(spark, "nowhere", targets, prefix="p", checkpoint=str(tmp_path))


def test_a_mirror_of_no_topic_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"tables=\{\}: give a target for each topic"):
        pg.mirror(spark, "nowhere", {}, prefix="p", checkpoint=tmp_path)


def test_a_checkpoint_on_a_file_system_without_its_jars_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SetupError, match=r"^s3a://lake: .*S3AFileSystem not found: name the jars"):
        pg.mirror(spark, "nowhere", {"p.a": "lake.a"}, prefix="p", checkpoint="s3a://lake/checkpoint")


def test_a_target_may_not_be_the_rejects_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"corrupt_to=LAKE\.a is the target of p\.a: name another table"):
        pg.mirror(
            spark, "nowhere", {"p.a": "lake.a"}, prefix="p", checkpoint=str(tmp_path), corrupt_to="LAKE.a"
        )


def test_a_target_may_not_be_where_another_keeps_its_positions(spark: SparkSession, tmp_path: Path) -> None:
    """`drop` of the one would drop the other."""
    targets = {"p.a": "lake.a", "p.b": "lake.A__positions"}
    with pytest.raises(
        SetupError, match=r"lake\.A__positions, the target of p\.b, is where .* to lake\.a: name"
    ):
        pg.mirror(spark, "nowhere", targets, prefix="p", checkpoint=str(tmp_path))


def test_the_rejects_table_may_not_be_somebodys(spark: SparkSession, target: str, tmp_path: Path) -> None:
    """Records would be merged into it, or fail to be, at the first one that can't be read."""
    lake_table(spark, target, "iceberg").create(StructType().add("topic", StringType()))
    message = r"^corrupt_to: .* exists, and pgrelay did not make it .*: name another"
    with pytest.raises(SetupError, match=message):
        pg.mirror(
            spark,
            "nowhere",
            {"p.a": "lake.a"},
            prefix="p",
            checkpoint=tmp_path,
            using="iceberg",
            corrupt_to=target,
        )


def test_leaving_out_a_topic_that_was_read_is_refused(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    for table in ("a", "b"):
        handmade.table(table, ID)
        handmade.write(table, change("c", 10, after={"id": 1}))
    targets = {table: f"{target}_{table}" for table in ("a", "b")}
    handmade.mirror(targets)
    with pytest.raises(SetupError, match=rf"{handmade.topic('b')}: left out, .* failOnDataLoss: 'false'"):
        handmade.mirror({"a": targets["a"]})
    handmade.mirror({"a": targets["a"]}, options={"failOnDataLoss": "false"})
    # Only once: the checkpoint has lost it then. Option values need not be text, as in Spark.
    checkpoint = Checkpoint(spark, f"{tmp_path}/checkpoint")
    source = QuerySource(spark, handmade.bootstrap, {"n": 1}, checkpoint)  # type: ignore[dict-item]
    refuse_removed_topics(source, [handmade.topic("a")])


def test_topics_whose_names_contain_the_topics_name_are_not_read(
    spark: SparkSession, handmade: HandmadeRelay, kafka: KafkaServer, target: str
) -> None:
    topic = handmade.table("a", ID)
    handmade.table("a_more", ID)
    for table in ("a", "a_more"):
        handmade.write(table, change("c", 10, after={"id": 1}))
    create_topic(kafka.bootstrap, f"other_{handmade.prefix}.schema")
    (schema,) = pg.table_schemas(spark, kafka.bootstrap, handmade.prefix, topics=[topic]).values()
    assert pg.read_changes(spark, kafka.bootstrap, topic, schema=schema).count() == 1
    for _ in range(2):  # the second finds in the checkpoint no topic that is not its own
        handmade.mirror({"a": target})


def test_a_compacted_or_missing_topic_is_a_warning(
    spark: SparkSession, kafka: KafkaServer, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.topic("a")
    create_topic(kafka.bootstrap, topic, cleanup_policy="compact,delete")
    handmade.table("a", ID, since=2)
    handmade.table("b", ID)
    with capture_logs() as logs:
        handmade.mirror({"a": f"{target}_a", "b": f"{target}_b", "later": f"{target}_c"})
    warned = {each["topic"]: each["event"] for each in logs if each["log_level"] == "warning"}
    assert warned.keys() == {topic, handmade.topic("later")}
    assert "is compacted" in warned[topic]
    assert "does not exist" in warned[handmade.topic("later")]


def test_text_columns_of_a_topic_that_is_not_mirrored_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match=r"text_columns: p\.typo is not mirrored; p\.a are"):
        pg.mirror(
            spark,
            "nowhere",
            {"p.a": "lake.a"},
            prefix="p",
            checkpoint=str(tmp_path),
            text_columns={"p.typo": ["at"]},
        )


@pytest.mark.parametrize("call", [pg.mirror, pg.history])
def test_an_unknown_on_missing_is_refused(
    spark: SparkSession, tmp_path: Path, call: Callable[..., object]
) -> None:
    with pytest.raises(SetupError, match="on_missing='error': write fail or null"):
        call(spark, "nowhere", {"p.a": "lake.a"}, prefix="p", checkpoint=str(tmp_path), on_missing="error")


@pytest.mark.parametrize("name", ["lake..orders", ".orders", "orders.", "a.b.c.d", ""])
def test_an_invalid_table_name_is_refused(spark: SparkSession, name: str) -> None:
    with pytest.raises(SetupError, match="is not a table name"):
        lake_table(spark, name, "delta")


def test_a_start_without_brokers_is_a_warning(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark's own client says nothing for minutes."""
    at_once = {"default.api.timeout.ms": "1000", "request.timeout.ms": "1000"}
    monkeypatch.setattr("pgrelay.spark.mirrors.kafka_cluster.SHORT_TIMEOUTS", at_once)
    with capture_logs() as logs:
        warn_of_topics(QuerySource(spark, "127.0.0.1:1", None, Checkpoint(spark, tmp_path)), ["p.a"])
    [warning] = [each for each in logs if each["log_level"] == "warning"]
    assert warning["event"] == "no broker answers; the mirror waits some minutes for one"
    assert warning["servers"] == "127.0.0.1:1"
    assert "Timed out" in warning["reason"]


def test_a_failure_that_concerns_no_topic_is_told_in_one_line(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as brokers that go away before the schemas are read; else it would be a traceback of Python."""
    handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    jvm: Any = spark._jvm
    monkeypatch.setattr(SchemaTopic, "read_with_uncommitted", lambda *_: jvm.java.lang.Integer.parseInt("x"))
    with handmade.mirroring({"a": target}) as query, pytest.raises(StreamingQueryException) as ended:
        query.awaitTermination()
    assert str(pg.query_error(ended.value)).startswith("batch 0: java.lang.NumberFormatException: ")
