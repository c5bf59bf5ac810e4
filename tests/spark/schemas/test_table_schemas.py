"""Schemas from the schema topic and from Postgres's catalogue, which are the same."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.schemas import schema_topic
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema_topic import SchemaTopic
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.topics import read_topic
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change, numeric, rows


@contextmanager
def transaction(servers: str, name: str) -> Iterator[Producer]:
    """A producer inside a Kafka transaction."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer


CREATE = """
    CREATE EXTENSION IF NOT EXISTS hstore;
    CREATE DOMAIN cents AS numeric(9,2);
    CREATE DOMAIN positive_cents AS cents CHECK (VALUE > 0);
    CREATE TYPE mood AS ENUM ('sad', 'glad');
    CREATE TABLE t (b text, a int, price positive_cents, day date, days date[], at timestamp(3),
        seen timestamptz, opens time, bin bytea, doc jsonb, docs json[], pairs hstore, feels mood,
        moods mood[],
        name varchar(20), free numeric, ratio real, PRIMARY KEY (a, b) INCLUDE (name));
    CREATE TABLE whole (id int, v text, PRIMARY KEY (id) INCLUDE (v) DEFERRABLE);
    ALTER TABLE whole REPLICA IDENTITY FULL;
    CREATE TABLE keyless (v text PRIMARY KEY DEFERRABLE);
"""


@pytest.mark.parametrize(
    "choices",
    [{}, {"numeric": "precise", "time": "debezium", "binary": "hex", "json": "inline"}],
    ids=["defaults", "others"],
)
def test_the_schema_topic_and_the_catalogue_give_the_same(
    spark: SparkSession, new_relay: NewRelay, database: Database, choices: dict[str, Any]
) -> None:
    database.execute(CREATE)
    relay = new_relay(records=choices).start().wait_streaming()
    database.execute(
        "INSERT INTO t (a, b) VALUES (1, 'x'); INSERT INTO whole VALUES (1); INSERT INTO keyless VALUES ('')"
    )
    relay.caught_up()
    schemas = pg.table_schemas(spark, relay.kafka.bootstrap, prefix=relay.prefix)
    catalogued = pg.postgres_schemas(database.dsn, relay.prefix, **choices)
    assert schemas.keys() == catalogued.keys() == {relay.topic(table) for table in ("t", "whole", "keyless")}
    for topic, schema in schemas.items():
        assert catalogued[topic].columns == schema.columns
        assert catalogued[topic].latest.replica_identity == schema.latest.replica_identity
        assert catalogued[topic].systemid == schema.systemid
    assert schemas[relay.topic("t")].key == ("b", "a")
    assert schemas[relay.topic("whole")].key == ("id",)
    assert schemas[relay.topic("keyless")].key == ()


def test_the_error_for_a_topic_without_schemas_names_it(
    spark: SparkSession, new_relay: NewRelay, database: Database
) -> None:
    relay = new_relay().start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(SetupError, match=rf"topic {relay.prefix}.schema has no schemas"):
        pg.table_schemas(spark, relay.kafka.bootstrap, prefix=relay.prefix)


def test_a_table_that_spark_can_not_represent_does_not_affect_others(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    id_ = Column("id", "int4", key=True, encoding="integer")
    topic = handmade.table("a", id_)
    handmade.table("other", id_, Column("Id", "text"))
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.mirror({"a": target})
    assert rows(spark.table(f"iceberg.{target}")) == {(1,): 1}
    assert list(pg.table_schemas(spark, handmade.bootstrap, handmade.prefix, topics=[topic])) == [topic]


def test_hidden_columns_are_strings_whatever_their_type(spark: SparkSession, handmade: HandmadeRelay) -> None:
    id_ = Column("id", "int4", key=True, encoding="integer")
    price = Column("price", "numeric", numeric(8, 2))
    topic = handmade.table("a", id_, replace(price, text=True), replace(price, name="shown"))
    handmade.write("a", change("c", 10, after={"id": 1, "price": "***", "shown": "4.50"}))
    (schema,) = pg.table_schemas(spark, handmade.bootstrap, handmade.prefix, topics=[topic]).values()
    changes = pg.read_changes(spark, handmade.bootstrap, topic, schema=schema)
    found = changes.select("after.price", "after.shown", "corrupt")
    assert rows(found) == {("***", Decimal("4.50"), None): 1}


def test_later_schemas_are_added_to_those_already_read(spark: SparkSession, handmade: HandmadeRelay) -> None:
    id_, name = Column("id", "int4", key=True, encoding="integer"), Column("name", "text")
    a, b = handmade.table("a", id_), handmade.table("b", id_)
    topic = SchemaTopic(handmade.bootstrap, handmade.prefix)
    first = topic.read(spark)
    handmade.table("b", id_, name, since=20)
    second = topic.read(spark)
    assert second[a] == first[a]
    assert [version.columns for version in second[b].versions] == [(id_,), (id_, name)]
    assert topic.read(spark, [b]) == {b: second[b]}
    with pytest.raises(SetupError, match=r"has no schemas of typo: check the topic's name"):
        pg.table_schemas(spark, handmade.bootstrap, handmade.prefix, topics=[a, "typo"])


def test_what_a_relay_repeats_at_its_starts_is_kept_once(
    spark: SparkSession, handmade: HandmadeRelay
) -> None:
    columns = [Column("id", "int4", key=True, encoding="integer"), Column("told_again_and_again", "text")]
    topic = handmade.table("a", *columns)
    for lsn in range(2, 12):
        handmade.table("a", *columns, since=lsn)
    schemas = SchemaTopic(handmade.bootstrap, handmade.prefix)
    first = schemas.read(spark)
    kept = [it for it in gc.get_objects() if isinstance(it, Column) and it.name == columns[1].name]
    assert [column for column in kept if column is not columns[1]] == [first[topic].columns[1]]
    assert first[topic].latest.position == (1, 0)
    assert schemas.read(spark)[topic] is first[topic], "nothing was written since"


def test_a_renamed_or_recreated_table_is_not_taken_for_two(
    spark: SparkSession, handmade: HandmadeRelay
) -> None:
    id_ = Column("id", "int4", key=True, encoding="integer")
    histories = {  # the table's name and relation, at one LSN after the other
        "renamed": [("a", 1), ("b", 1)],
        "anew": [("a", 1), ("a", 2)],
        "both": [("a", 1), ("b", 1), ("a", 2)],
    }
    for topic, tables in histories.items():
        for lsn, (name, relation) in enumerate(tables, start=1):
            handmade.table(topic, id_, called=name, relation=relation, since=lsn)
    schemas = pg.table_schemas(spark, handmade.bootstrap, handmade.prefix)
    sharing = {topic: schemas[handmade.topic(topic)].sharing for topic in histories}
    # In the last, the relation that had the name first writes under another one.
    assert sharing == {"renamed": (), "anew": (), "both": ("public.a", "public.b")}
    doubtful = {topic: [at for at, _ in schemas[handmade.topic(topic)].doubts()] for topic in histories}
    # Tables that share a topic take turns in it.
    assert doubtful == {"renamed": [], "anew": [(2, 0)], "both": []}


def test_uncommitted_schemas_are_waited_for(
    spark: SparkSession, handmade: HandmadeRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = Column("id", "int4", key=True, encoding="integer")
    topic = handmade.table("a", id_)
    with transaction(handmade.bootstrap, handmade.prefix) as open_:
        [record] = read_topic(handmade.bootstrap, f"{handmade.prefix}.schema")
        assert record.value is not None
        open_.produce(f"{handmade.prefix}.schema", record.value.replace(b"public.a", b"public.b"))
        open_.flush()
        other = handmade.topic("b")
        schemas = SchemaTopic(handmade.bootstrap, handmade.prefix)
        assert schemas.read(spark, [topic, other]).keys() == {topic}
        ends, sleep = iter([open_.commit_transaction]), time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: next(ends, lambda: sleep(seconds))())
        assert schemas.read_with_uncommitted(spark, [topic, other]).keys() == {topic, other}


def test_aborted_schemas_are_waited_for_once(
    spark: SparkSession, handmade: HandmadeRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction(handmade.bootstrap, handmade.prefix) as aborted:
        aborted.produce(f"{handmade.prefix}.schema", b"{}")
        aborted.flush()
        aborted.abort_transaction()
    schemas = SchemaTopic(handmade.bootstrap, handmade.prefix)
    monkeypatch.setattr(schema_topic, "_TIMEOUT_S", 0.0)
    assert schemas.read_with_uncommitted(spark, []) == {}
    monkeypatch.setattr(schema_topic, "_TIMEOUT_S", 1e9)
    assert schemas.read_with_uncommitted(spark, []) == {}
