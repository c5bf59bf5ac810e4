"""Avro in Spark: each record is read by its own schema id, with several schemas in one batch."""

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pgrelay import spark as pg
from pgrelay.embedded.registry import SchemaRegistry
from pgrelay.errors import SetupError
from pgrelay.spark.mirrors.topic_ends import Lag, TopicEnds
from pgrelay.spark.schemas.registry import Registry
from tests.integration.avro import value_ids
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.topics import read_topic
from tests.spark.handmade_records import Message, in_local_time, produce, rows


def avro_relay(new_relay: NewRelay, registry: SchemaRegistry, **records: object) -> Relay:
    options = {"format": "avro", "schema_registry": {"url": registry.url}, **records}
    return new_relay(records=options).start().wait_streaming()


def test_every_avro_type_is_exact(
    spark: SparkSession, new_relay: NewRelay, schema_registry: SchemaRegistry, database: Database
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, i2 smallint, i8 bigint, f4 real, f8 double precision,"
        " n numeric(12,2), wide numeric(50,2), free numeric, b boolean, bin bytea, d date, ts timestamp,"
        " tz timestamptz, t time, tt timetz, u uuid, a int[], grid smallint[][], doc jsonb, lasts interval,"
        ' "odd name" text)'
    )
    relay = avro_relay(new_relay, schema_registry)
    database.execute(
        "INSERT INTO t VALUES (1, -2, 9223372036854775807, 0.1, 1e-300, -1234567890.12, 123.45, 0.1250,"
        " true, '\\x00ff', '0001-01-01', '1582-10-10 14:54:02.343135', '2026-11-20 14:54:02.343135+02',"
        " '14:54:02.5', '14:54:02.5+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{1,NULL}',"
        " '{{1,2},{3,NULL}}', '{\"a\": 1.10}', '1 day', 'x')"
    )
    database.execute("INSERT INTO t (id) VALUES (2)")
    database.execute("DELETE FROM t WHERE id = 2")
    relay.caught_up()
    schema = pg.table_schemas(spark, relay.kafka.bootstrap, prefix=relay.prefix)[relay.topic("t")]
    changes = pg.read_changes(
        spark, relay.kafka.bootstrap, relay.topic("t"), schema=schema, registry=schema_registry.url
    )
    # The catalogue and the registry give the same, except for types that Avro does not have.
    catalogued = pg.postgres_schemas(database.dsn, relay.prefix, format="avro")[relay.topic("t")]
    assert catalogued.columns == schema.columns
    assert catalogued.systemid == schema.systemid
    registered = pg.registry_schemas(schema_registry.url, [relay.topic("t")])[relay.topic("t")]
    assert registered.key == schema.key
    assert [
        (mine.name, mine.spark_type.simpleString(), other.spark_type.simpleString())
        for mine, other in zip(registered.columns, schema.columns, strict=True)
        if mine.spark_type != other.spark_type
    ] == [("i2", "int", "smallint"), ("grid", "array<array<int>>", "array<array<smallint>>")]
    first, second, delete = changes.orderBy("offset").collect()
    assert [first.corrupt, second.corrupt, delete.corrupt] == [None] * 3
    assert changes.schema["after"].dataType.simpleString() == schema.row_type.simpleString()
    assert first.after.asDict() == {
        "id": 1,
        "i2": -2,
        "i8": 2**63 - 1,
        "f4": spark.range(1).select(F.lit("0.1").cast("float")).first()[0],  # type: ignore[index]
        "f8": 1e-300,
        "n": Decimal("-1234567890.12"),
        "wide": "123.45",
        "free": "0.1250",
        "b": True,
        "bin": b"\x00\xff",
        "d": date(1, 1, 1),
        "ts": datetime(1582, 10, 10, 14, 54, 2, 343135),
        "tz": in_local_time(datetime(2026, 11, 20, 12, 54, 2, 343135, UTC)),
        "t": "14:54:02.5",
        "tt": "14:54:02.5+02",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "a": [1, None],
        "grid": [[1, 2], [3, None]],
        "doc": '{"a": 1.10}',
        "lasts": "P1D",
        "odd name": "x",
    }
    assert {value for name, value in second.after.asDict().items() if name != "id"} == {None}
    assert (delete.op, delete.before.id, delete.after, delete.key.id) == ("d", 2, None, 2)


def test_a_readers_place_is_known_by_a_few_records(
    spark: SparkSession, new_relay: NewRelay, schema_registry: SchemaRegistry, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = avro_relay(new_relay, schema_registry)
    for number in range(2):
        database.execute(f"INSERT INTO t VALUES ({number})")
    relay.caught_up()
    servers, topic, url = relay.kafka.bootstrap, relay.topic("t"), schema_registry.url
    schema = pg.table_schemas(spark, servers, prefix=relay.prefix)[topic]
    changes = pg.read_changes(spark, servers, topic, schema=schema, registry=url)
    placed = changes.orderBy("offset").select("commit_lsn", F.unix_millis("ts").alias("ts_ms"))
    first, last = placed.collect()
    ends = TopicEnds(spark, servers, registry=Registry(url))
    assert ends.lags({topic: {0: 2}}) == {topic: Lag(last.commit_lsn, last.commit_lsn)}
    behind = Lag(first.commit_lsn, last.commit_lsn, records=1, oldest_s=last.ts_ms / 1000)
    assert ends.lags({topic: {0: 1}}) == {topic: behind}


# A mirror of whole transactions reads each record's position first, and then the record like any mirror.
@pytest.mark.parametrize(("envelope", "whole"), [("debezium", False), ("debezium", True), ("flat", True)])
def test_a_truncated_value_is_reported_with_its_offset_or_rejected(
    spark: SparkSession,
    new_relay: NewRelay,
    schema_registry: SchemaRegistry,
    database: Database,
    tmp_path: Path,
    target: str,
    envelope: str,
    whole: bool,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    relay = avro_relay(new_relay, schema_registry, envelope=envelope, transaction_topic=whole)
    database.execute("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    relay.caught_up()
    topic = relay.topic("t")
    value = read_topic(relay.kafka.bootstrap, topic)[0].value
    assert value is not None
    produce(relay.kafka.bootstrap, topic, [Message(value[:length]) for length in (5, 12, len(value) - 1)])
    database.execute("DELETE FROM t WHERE id = 2")
    relay.caught_up()

    def mirror(corrupt_to: str | None) -> None:
        query = pg.mirror(
            spark,
            relay.kafka.bootstrap,
            {topic: target},
            prefix=relay.prefix,
            checkpoint=str(tmp_path / "checkpoint"),
            using="iceberg",
            registry=schema_registry.url,
            corrupt_to=corrupt_to,
            whole_transactions=whole,
            trigger={"availableNow": True},
        )
        query.awaitTermination()

    with pytest.raises(Exception, match=rf"RecordError: {topic} partition 0 offset 2: not a value of schema"):
        mirror(None)
    mirror(f"{target}_corrupt")
    assert rows(spark.table(f"iceberg.{target}_corrupt"), "offset") == Counter([(2,), (3,), (4,)])
    assert rows(spark.table(f"iceberg.{target}")) == Counter([(1, "a")])


def test_records_of_several_schemas_are_read_in_one_batch(
    spark: SparkSession,
    new_relay: NewRelay,
    schema_registry: SchemaRegistry,
    database: Database,
    tmp_path: Path,
    target: str,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n int, gone text, big text)")
    database.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    relay = avro_relay(new_relay, schema_registry)
    database.execute("INSERT INTO t VALUES (1, 10, 'x', repeat('x', 5000)), (2, 20, 'y', NULL)")
    database.execute("ALTER TABLE t ADD COLUMN extra numeric(8,2)")
    database.execute("UPDATE t SET extra = 1.5 WHERE id = 1")
    database.execute("ALTER TABLE t ALTER COLUMN n TYPE bigint, DROP COLUMN gone")
    database.execute("INSERT INTO t VALUES (3, 3000000000, NULL, 7)")
    database.execute("UPDATE t SET id = 5 WHERE id = 2")
    relay.caught_up()
    topic = relay.topic("t")
    assert len(set(value_ids(read_topic(relay.kafka.bootstrap, topic)))) == 3
    query = pg.mirror(
        spark,
        relay.kafka.bootstrap,
        {topic: target},
        prefix=relay.prefix,
        checkpoint=str(tmp_path / "checkpoint"),
        using="iceberg",
        registry=schema_registry.url,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    found = rows(
        spark.table(f"iceberg.{target}").withColumn("big", F.length("big")), "id", "n", "big", "extra"
    )
    assert found == Counter(
        [
            (1, 10, 5000, Decimal("1.50")),
            (5, 20, None, None),
            (3, 3000000000, None, Decimal("7.00")),
        ]
    )


def test_a_topic_with_a_foreign_schema_is_refused(prefix: str, schema_registry: SchemaRegistry) -> None:
    topic = f"{prefix}.words"
    words = Schema('"string"', "AVRO")
    SchemaRegistryClient({"url": schema_registry.url}).register_schema(f"{topic}-value", words)
    with pytest.raises(SetupError, match=rf"^{topic}: the last schema of subject {topic}-value is not that"):
        pg.registry_schemas(schema_registry.url, [topic])
