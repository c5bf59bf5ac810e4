"""Mistakes in a call are one-line errors before any broker is contacted."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import PgrelayError, SetupError
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from tests.spark.handmade_records import table

TABLES = {"p.a": "lake.a"}


def test_a_single_topic_instead_of_a_list_is_refused(spark: SparkSession) -> None:
    message = r"topics='p\.a': write a list of topics, \['p\.a'\]"
    with pytest.raises(SetupError, match=message):
        pg.table_schemas(spark, "nowhere", "p", topics="p.a")
    with pytest.raises(SetupError, match=message):
        pg.registry_schemas("http://nowhere", "p.a")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"topics": 5}, r"^topics=5: write a list of topics$"),
        ({"topics": ["p.a", 5]}, r"^topics=\['p\.a', 5\]: write a list of topics$"),
        ({"options": {5: "x"}}, r"^options: 5 is no option's name: write a text$"),
        ({"options": {"kafka.ssl.key.password": None}}, r"^kafka\.ssl\.key\.password: there is no value: "),
        ({"prefix": None}, r"^prefix=None: write the relay's records\.prefix"),
        ({"servers": None}, r"^servers=None: write the brokers"),
        ({"options": "x"}, r"^options: write a dict of options"),
    ],
)
def test_the_schema_topic_is_asked_for_as_it_should_be(
    spark: SparkSession, choice: dict[str, Any], message: str
) -> None:
    with pytest.raises(SetupError, match=message):
        pg.table_schemas(spark, **{"servers": "nowhere:1", "prefix": "p"} | choice)


every_call = pytest.mark.parametrize(
    "call",
    [
        lambda spark, folder: pg.table_schemas(spark, "nowhere:1", "p"),
        lambda spark, folder: pg.read_changes(spark, "nowhere:1", "p.a", schema=table("p.a")),
        lambda spark, folder: pg.mirror(spark, "nowhere:1", TABLES, prefix="p", checkpoint=folder),
        lambda spark, folder: pg.history(spark, "nowhere:1", TABLES, prefix="p", checkpoint=folder),
        lambda spark, folder: pg.mirror_position(spark, "lake.a"),
        lambda spark, folder: pg.compact(spark, "lake.a"),
        lambda spark, folder: pg.purge(spark, "lake.a"),
        lambda spark, folder: pg.drop(spark, "lake.a"),
    ],
)


@every_call
def test_a_session_is_one_whose_java_process_is_at_hand(
    call: Callable[[Any, Path], object], tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match=r"^spark=None: give a SparkSession .*Spark Connect's have none$"):
        call(None, tmp_path)


@every_call
def test_a_session_that_was_stopped_is_refused(
    spark: SparkSession, call: Callable[[Any, Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)  # as after stop()
    with pytest.raises(SetupError, match=r"^spark: this session was stopped: make another with session\(\)$"):
        call(spark, tmp_path)


def test_a_schema_topic_that_can_not_be_read_is_one_line(spark: SparkSession) -> None:
    options = {"kafka.security.protocol": "NOPE"}
    with pytest.raises(PgrelayError, match=r"^p\.schema: .*security\.protocol") as caught:
        pg.table_schemas(spark, "nowhere:1", "p", options=options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"prefix": None}, r"^prefix=None: write the relay's records\.prefix"),
        ({"topic": "{nope}"}, r"^topic='\{nope\}': write the relay's records\.topic, of \{prefix\}, "),
        ({"format": "xml"}, r"^format='xml': write json or avro"),
        ({"numeric": "x"}, r"^numeric='x': write string or double or precise"),
        ({"dsn": None}, r"^dsn=None: write how to connect to Postgres"),
    ],
)
def test_encodings_that_no_relay_has_are_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        pg.postgres_schemas(**{"dsn": "host=nowhere", "prefix": "p"} | choice)


def test_whole_transactions_are_a_switch(spark: SparkSession, tmp_path: Path) -> None:
    whole: Any = "false"
    with pytest.raises(SetupError, match="whole_transactions='false': write True or False"):
        pg.mirror(spark, "nowhere:1", TABLES, prefix="p", checkpoint=tmp_path, whole_transactions=whole)


def test_a_batch_is_a_data_frame() -> None:
    batch: Any = None
    with pytest.raises(SetupError, match="batch=None: give a DataFrame of read_changes"):
        pg.apply_changes(batch, "lake.a", schema=table("p.a"))


def test_columns_are_named_one_by_one() -> None:
    names: Any = ["a"]
    with pytest.raises(SetupError, match=r"^p\.a: no column \['a'\]"):
        table("p.a").as_text(names)


@pytest.mark.parametrize("call", [pg.mirror, pg.history])
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"text_columns": {"p.a": "at"}}, r"text_columns: p\.a has 'at': write a list of columns, \['at'\]"),
        (
            {"trigger": {"availablenow": True}},
            "trigger: there is no 'availablenow'; write .*availableNow",
        ),
        (
            {"trigger": {"continuous": "1 second"}},
            "no 'continuous'; write one of processingTime, once, availableNow$",
        ),
        ({"query_name": ""}, r"^query_name='': write a name"),
        ({"tables": {5: "lake.a"}}, r"^tables: 5 is no topic: write its name"),
        ({"tables": None, "text_columns": {"p.a": ["at"]}}, r"^tables=None: give a target for each topic"),
        ({"registry": 5}, r"^registry=5: write its URL, or a dict of options"),
        ({"options": {"maxOffsetPerTrigger": 5}}, r"^maxOffsetPerTrigger: .*: did you mean maxOffsetsPerTr"),
        ({"trigger": "5 seconds"}, r"trigger='5 seconds': write it as a dict, such as {'processingTime': "),
        ({"trigger": {"processingTime": "5 parsecs"}}, r"trigger={'processingTime': '5 parsecs'}: .*parsecs"),
        ({"trigger": {"processingTime": 5}}, r"trigger={'processingTime': 5}: "),
        (
            {"text_columns": ["at"]},
            r"text_columns=\['at'\]: write a list of columns for each topic, in a dict",
        ),
        ({"options": "startingOffsets=latest"}, r"^options: write a dict of options, such as {'startingOff"),
        ({"options": {"maxOffsetsPerTrigger": 0}}, r"^maxOffsetsPerTrigger: 0 is no number of records: wri"),
        ({"options": {"maxOffsetsPerTrigger": "many"}}, r"^maxOffsetsPerTrigger: 'many' is no number of"),
        ({"options": {"minPartitions": "x"}}, r"^minPartitions: 'x' is no number: write 1 or more$"),
        (
            {"options": {"startingTimestamp": "1 May"}},
            r"^startingTimestamp: '1 May' is no time: write millis",
        ),
        ({"options": {"failOnDataLoss": "no"}}, r"^failOnDataLoss: 'no' is no switch: write true or false$"),
        ({"checkpoint": "a:b:c"}, r"^checkpoint a:b:c: .*URISyntaxException"),
        ({"using": ["delta"]}, r"^using=\['delta'\]: write delta or iceberg$"),
        ({"options": {"endingOffsets": "latest"}}, r"^endingOffsets: a stream has no end: leave it out"),
        (
            {"options": {"subscribe": "p.a"}},
            r"^subscribe: the topics are arguments of the call: leave it out",
        ),
        ({"placeholder": "yes"}, "^placeholder='yes': write True if the relay has"),
        ({"checkpoint": None}, r"^checkpoint=None: name the folder in which the query keeps how far it has"),
        ({"checkpoint": ""}, r"^checkpoint='': name the folder"),
        ({"prefix": None}, r"^prefix=None: write the relay's records.prefix"),
        ({"servers": None}, r"^servers=None: write the brokers, 'host:port,host:port'"),
        ({"servers": ["nowhere:1"]}, r"^servers=\['nowhere:1'\]: write the brokers"),
        (
            {"servers": "nowhere"},
            r"^Kafka's client refuses its settings: .*nowhere; correct servers, or the opt",
        ),
        (
            {
                "servers": "127.0.0.1:1",  # it is resolved before the rest is looked at
                "options": {
                    "kafka.security.protocol": "SASL_SSL",
                    "kafka.sasl.mechanism": "PLAIN",
                    "kafka.sasl.jaas.config": "password=secret",
                },
            },
            r"^Kafka's client refuses its settings: kafka\.sasl\.jaas\.config is not of the form: org",
        ),
        (
            {
                "servers": "127.0.0.1:1",
                "options": {
                    "kafka.security.protocol": "SASL_SSL",
                    "kafka.sasl.mechanism": "PLAIN",
                    "kafka.sasl.jaas.config": "org.apache.kafka.NoLoginModule required;",
                },
            },
            r"^Kafka's client refuses its settings: .*NoLoginModule",
        ),
        (
            {
                "servers": "127.0.0.1:1",
                "options": {
                    "kafka.security.protocol": "SSL",
                    "kafka.ssl.truststore.location": "/nowhere/truststore.jks",
                },
            },
            r"^Kafka's client refuses its settings: no such file: /nowhere/truststore\.jks",
        ),
        (
            {"options": {"kafka.isolation.level": "read_comitted"}},
            r"^kafka\.isolation\.level: 'read_comitted' is no isolation level: write read_committed or",
        ),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused(
    spark: SparkSession, tmp_path: Path, call: Callable[..., object], choice: dict[str, Any], message: str
) -> None:
    given = {"servers": "nowhere:1", "tables": TABLES, "prefix": "p", "checkpoint": tmp_path} | choice
    with pytest.raises(SetupError, match=message) as caught:
        call(spark, **given)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_checkpoint_that_can_not_be_written_is_told(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PgrelayError, match=rf"^checkpoint {file}: .*{file}"):
        Checkpoint(spark, file).save_topic_ids({"p.a": "x"})


@pytest.mark.parametrize("tables", [["p.a"], {}])
def test_targets_are_given_by_topic(spark: SparkSession, tmp_path: Path, tables: Any) -> None:
    with pytest.raises(SetupError, match=r"tables=.*: give a target for each topic"):
        pg.mirror(spark, "nowhere", tables, prefix="p", checkpoint=tmp_path)


@pytest.mark.parametrize("schema", [{}, None], ids=["all of them", "none"])
def test_one_tables_schema_is_needed(spark: SparkSession, schema: Any) -> None:
    message = r"schema: a (dict|NoneType) is no TableSchema: write schema=table_schemas\(\.\.\.\)\[topic\]"
    with pytest.raises(SetupError, match=message):
        pg.read_changes(spark, "nowhere", "p.a", schema=schema)
    with pytest.raises(SetupError, match=message):
        pg.apply_changes(spark.range(1), "lake.a", schema=schema)


def test_changes_are_those_of_one_topic(spark: SparkSession) -> None:
    topics: Any = ["p.a", "p.b"]
    with pytest.raises(SetupError, match=r"topic=\['p\.a', 'p\.b'\]: write one topic"):
        pg.read_changes(spark, "nowhere", topics, schema=table("p.a"))
    with pytest.raises(SetupError, match=r"topic='': write one topic"):
        pg.read_changes(spark, "nowhere", "", schema=table("p.a"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, r"^options: starting offset can't be latest for batch queries"),
        ({"kafka.auto.offset.reset": "none"}, r"^options: Kafka option 'auto\.offset\.reset' is not suppo"),
    ],
)
def test_an_option_that_spark_itself_refuses_is_one_line(
    spark: SparkSession, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SetupError, match=message) as caught:
        pg.read_changes(spark, "nowhere:1", "p.a", schema=table("p.a"), options=options)
    assert "\n" not in str(caught.value)


def test_the_name_of_a_query_that_runs_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    """For example when a notebook's cell runs again."""
    stream = spark.readStream.format("rate").load().writeStream.format("noop").queryName("orders")
    query = stream.option("checkpointLocation", str(tmp_path / "other")).start()
    try:
        with pytest.raises(
            SetupError, match=r"^query_name='orders': a query of that name runs .*: stop\(\) it"
        ):
            pg.mirror(
                spark, "127.0.0.1:1", TABLES, prefix="p", checkpoint=tmp_path / "own", query_name="orders"
            )
    finally:
        query.stop()


def test_whether_the_relay_writes_placeholders_is_true_or_false(spark: SparkSession) -> None:
    placeholder: Any = "yes"
    with pytest.raises(SetupError, match="placeholder='yes': write True if the relay has"):
        pg.read_changes(spark, "nowhere:1", "p.a", schema=table("p.a"), placeholder=placeholder)


def test_a_target_is_named(spark: SparkSession) -> None:
    target: Any = None
    with pytest.raises(SetupError, match="None is not a table name"):
        pg.apply_changes(spark.range(0).selectExpr("struct() AS after"), target, schema=table("p.a"))


def test_an_age_beyond_the_calendar_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SetupError, match=r"older_than=999999 days.*: no version is that old"):
        pg.purge(spark, "lake.a", using="iceberg", older_than=timedelta(days=999_999))


@pytest.mark.parametrize("older_than", [7, timedelta(days=-1)], ids=["number", "negative"])
def test_an_age_is_a_timedelta(spark: SparkSession, older_than: Any) -> None:
    """A negative one would remove every version but the last."""
    with pytest.raises(SetupError, match=r"older_than=.*: write a timedelta, such as timedelta\(days=7\)"):
        pg.purge(spark, "lake.a", using="iceberg", older_than=older_than)


def test_a_second_listener_on_the_same_registry_is_refused(spark: SparkSession) -> None:
    """For example when a notebook's cell runs again."""
    registry = CollectorRegistry()
    pg.MirrorListener(spark, "nowhere", TABLES, metrics=registry)
    with pytest.raises(SetupError, match="has these metrics already: keep that one"):
        pg.MirrorListener(spark, "nowhere", TABLES, metrics=registry)
    pg.MirrorListener(spark, "nowhere", TABLES, metrics=CollectorRegistry())


def test_a_listener_and_a_session_are_given_what_they_need(spark: SparkSession) -> None:
    wrong: Any = ["p.a"]
    with pytest.raises(SetupError, match=r"tables=\['p\.a'\]: give the mirrors' targets by topic"):
        pg.MirrorListener(spark, "nowhere", wrong, metrics=CollectorRegistry())
    with pytest.raises(SetupError, match=r"^servers=None: write the brokers"):
        pg.MirrorListener(spark, None, TABLES, metrics=CollectorRegistry())  # type: ignore[arg-type]
    with pytest.raises(SetupError, match=r"^options: spark\.x has no value: write one, or leave it out$"):
        pg.session(options={"spark.x": None})  # type: ignore[dict-item]
    with pytest.raises(SetupError, match=r"^options: 5 is no setting's name: write a text$"):
        pg.session(options={5: "x"})  # type: ignore[dict-item]
    with pytest.raises(SetupError, match=r"^options: .*spark\.sql\.shuffle\.partitions"):
        pg.session(options={"spark.sql.shuffle.partitions": "many"})
    with pytest.raises(SetupError, match=r"options=\['p\.a'\]: write a dict of Spark's settings"):
        pg.session(options=wrong)
    with pytest.raises(SetupError, match=r"warehouse=5: write a folder or a URI"):
        pg.session(5)  # type: ignore[arg-type]
