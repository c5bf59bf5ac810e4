"""Delta's failures become one line with the topic and the target."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pgrelay import log
from pgrelay import spark as pg
from pgrelay.errors import PgrelayError, RecordError, SetupError, exit_code
from pgrelay.spark.failures import log_unreadable, one_line, wrap_java_errors
from pgrelay.spark.lake.merge import MissingRow
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark_mirror.failure import wrap_java_exit, wrap_start_errors
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.mark.parametrize(
    ("setting", "refused"),
    [
        (
            "ADD CONSTRAINT few CHECK (id < 5)",
            ".*CHECK constraint few .*; rows stay as Postgres has them: drop the table's constraint",
        ),
        (
            "SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
            ".*only allow appends.*; set delta.appendOnly of the table to false",
        ),
    ],
)
def test_a_refusal_by_the_target_is_one_line_with_topic_target_and_cure(
    spark: SparkSession, handmade: HandmadeRelay, target: str, setting: str, refused: str
) -> None:
    """A process that is started again would meet it again."""
    topic = handmade.table("a", ID, Column("note", "text"))
    handmade.write("a", change("c", 10, after={"id": 1, "note": "one"}))
    handmade.mirror({"a": target}, using="delta")
    spark.sql(f"ALTER TABLE {target} {setting}")
    handmade.write("a", change("u", 11, after={"id": 1, "note": "uno"}))
    handmade.write("a", change("c", 12, after={"id": 9, "note": None}))
    line = rf"{topic} to {target}: {refused}"
    with pytest.raises(StreamingQueryException) as ended:
        handmade.mirror({"a": target}, using="delta")
    error = pg.query_error(ended.value)
    schema = pg.table_schemas(spark, handmade.bootstrap, handmade.prefix)[topic]
    changes = pg.read_changes(spark, handmade.bootstrap, topic, schema=schema)
    with pytest.raises(SetupError, match=line) as caught:
        pg.apply_changes(changes, target, schema=schema)
    assert (type(error), str(error)) == (SetupError, str(caught.value))
    assert "\n" not in str(error)


def test_a_folder_that_can_not_be_created_is_one_line_with_the_cure(spark: SparkSession, target: str) -> None:
    cure = "; let this process write there, or name another folder$"
    with pytest.raises(PgrelayError, match=f"^checkpoint /proc/none: .*Mkdirs failed .*{cure}") as caught:
        Checkpoint(spark, "/proc/none").save_topic_ids({})
    with pytest.raises(PgrelayError, match=f"^here: .*LOG_PATH.*{cure}"), wrap_java_errors("here"):
        spark.sql(f"CREATE TABLE {target} (id int) USING delta LOCATION '/proc/none'")
    assert exit_code(caught.value) == 1


@pytest.mark.parametrize("kind", [RecordError, MissingRow])
def test_our_own_errors_keep_their_exit_code_from_any_module(kind: type[PgrelayError]) -> None:
    text = f"[STREAM_FAILED]\nTraceback:\n  merge\n{kind.__module__}.{kind.__name__}: a: no row\n\tat java"
    error = pg.query_error(StreamingQueryException(text))
    assert (type(error), str(error), exit_code(error)) == (kind, "a: no row", 4)


def test_an_option_that_spark_refuses_is_a_setup_error(spark: SparkSession) -> None:
    options = {"kafka.bootstrap.servers": "nowhere", "subscribe": "a", "kafka.auto.offset.reset": "none"}
    with (
        pytest.raises(SetupError, match=r"^kafka\.options: .*auto\.offset\.reset"),
        wrap_start_errors("kafka.options"),
    ):
        spark.readStream.format("kafka").options(**options).load()


def test_a_file_that_java_can_not_read_is_a_pgrelay_error(spark: SparkSession, tmp_path: Path) -> None:
    with (
        pytest.raises(PgrelayError, match=r"^lake: java\.io\.FileNotFoundException: .*/metadata") as caught,
        wrap_start_errors("lake"),
    ):
        Checkpoint(spark, tmp_path).query_id()
    assert exit_code(caught.value) == 1


def test_a_master_that_spark_gave_up_is_named() -> None:
    text = "spark: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    refused = r"its own line above says why; at the start, check spark\.master$"
    with pytest.raises(PgrelayError, match=refused), wrap_start_errors("spark"):
        raise PgrelayError(text)


@pytest.mark.parametrize(
    "gone", [Py4JError("An error occurred while calling o1.x"), ConnectionRefusedError()]
)
def test_a_killed_java_process_is_a_pgrelay_error(gone: Exception) -> None:
    stop = threading.Event()
    with (
        pytest.raises(PgrelayError, match=r"Java process has ended: .*maxOffsetsPerTrigger"),
        wrap_java_exit(stop),
    ):
        raise gone
    stop.set()
    with wrap_java_exit(stop):  # Java was stopped together with us
        raise gone


def test_the_reason_of_an_error_is_its_root_cause(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    with pytest.raises(Exception, match="number") as thrown:
        jvm.java.util.concurrent.CompletableFuture.failedFuture(jvm.java.io.IOException("no number")).get()
    assert one_line(thrown.value) == "java.io.IOException: no number"
    assert one_line(ValueError("no number\nand more")) == "no number"
    assert one_line(ValueError("no \x1b[2Jnumber")) == "no \\x1b[2Jnumber"


@pytest.mark.usefixtures("restored_logging")
def test_what_is_of_no_consequence_is_told_only_at_level_debug(capfd: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    log_unreadable("the topics' ids", ValueError("no broker"))
    assert capfd.readouterr() == ("", ""), "structlog, as it is in a notebook, shows every level"
    log.configure("debug")
    log_unreadable("the topics' ids", ValueError("no broker"))
    event = json.loads(capfd.readouterr().err)
    assert (event["event"], event["reason"]) == ("the topics' ids can't be read", "no broker")


def test_records_that_go_while_a_query_runs_are_told_with_the_cure(
    spark: SparkSession, handmade: HandmadeRelay, tmp_path: Path
) -> None:
    topic = handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    schema = pg.table_schemas(spark, handmade.bootstrap, handmade.prefix)[topic]
    changes = pg.read_changes(spark, handmade.bootstrap, topic, schema=schema, streaming=True)
    once = changes.writeStream.format("noop").trigger(availableNow=True)
    query = once.option("checkpointLocation", str(tmp_path))
    query.start().awaitTermination()
    handmade.write("a", *(change("c", 20 + n, after={"id": n}) for n in range(3)))
    handmade.expire("a", 3)
    with pytest.raises(StreamingQueryException) as ended:
        query.start().awaitTermination()
    message = (
        "the query failed: records that it was to read are gone from Kafka, a topic was re-created, or "
        "startingOffsets are past its end; start"
    )
    assert str(pg.query_error(ended.value)).startswith(message)


def test_starting_offsets_past_the_end_are_told_with_the_cure(
    spark: SparkSession, handmade: HandmadeRelay, target: str, tmp_path: Path
) -> None:
    """The checkpoint keeps them, so that another start meets them again, and says the same."""
    topic = handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))

    def mirror(checkpoint: str, offset: int) -> None:
        options = {"startingOffsets": json.dumps({topic: {"0": offset}})}
        at, once = str(tmp_path / checkpoint), {"availableNow": True}
        servers, prefix = handmade.bootstrap, handmade.prefix
        pg.mirror(
            spark, servers, {topic: target}, prefix=prefix, checkpoint=at, options=options, trigger=once
        ).awaitTermination()

    for offset in (1000, 0):
        with pytest.raises(StreamingQueryException) as ended:
            mirror("past", offset)
        assert "correct startingOffsets and take a new checkpoint" in str(pg.query_error(ended.value))
    mirror("new", 0)
    assert spark.table(target).count() == 1


def test_starting_offsets_that_leave_a_partition_out_are_told_with_the_cure() -> None:
    text = "[STREAM_FAILED] assertion failed: If startingOffsets contains specific offsets, you must specify"
    error = pg.query_error(StreamingQueryException(text + " all TopicPartitions.\nUse -1 for latest, -2 for"))
    assert type(error) is SetupError
    assert str(error).startswith("startingOffsets: Spark begins at them only if they name exactly")


def test_a_query_that_has_not_failed_has_no_error() -> None:
    assert pg.query_error(None) is None


def test_what_the_call_itself_raised_stays_as_it_is() -> None:
    """So one `except` serves the call and the wait for its query."""
    refused = pg.SetupError("topics: write a list")
    assert pg.query_error(refused) is refused


def test_other_errors_are_one_line_too() -> None:
    error = pg.query_error(StreamingQueryException("\n[STREAM_FAILED] the disk is full\n\tat java"))
    assert (type(error), str(error)) == (
        pg.PgrelayError,
        "the query failed: [STREAM_FAILED] the disk is full",
    )
