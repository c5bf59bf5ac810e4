"""Hand-made Avro records, without a registry."""

import json
import struct
from dataclasses import replace
from datetime import date, timedelta

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import TimestampType

from pgrelay.encode.avro.names import avro_name
from pgrelay.spark.records.avro_records import AvroRecords
from pgrelay.spark.records.avro_values import converted
from pgrelay.spark.records.changes import Decoder
from pgrelay.spark.records.record_positions import with_positions
from pgrelay.spark.records.sql import alias
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.registry import Registry
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.spark.handmade_records import Message, as_read, change, numeric, table, tombstone
from tests.spark.java_calls import counted_calls

ID = Column("id", "int4", key=True, encoding="int")
N = Column("n", "text", encoding="string")

HELD = "__debezium_unavailable_value"


def text(name: str) -> Column:
    return Column(name, "text", encoding="string")


def writer_schema(*texts: str) -> str:
    """The schema of values whose rows have an id and text columns."""
    columns = [{"name": avro_name(name), "type": ["null", "string"], "pgrelay.name": name} for name in texts]
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}, *columns]}
    source = [{"name": name, "type": "long"} for name in ("commit_lsn", "seq", "txId", "ts_us")]
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "unchanged", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "op", "type": "string"},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
    ]
    return json.dumps({"type": "record", "name": "Envelope", "fields": fields})


def update(
    spark: SparkSession,
    schema: TableSchema,
    after: dict[str, object],
    *,
    unchanged: list[str] | None = None,
    placeholder: bool | None = None,
) -> Row:
    """An update at LSN 10 as a change; `after` is its row."""
    names = [name for name in after if name != "id"]
    source = {"commit_lsn": 10, "seq": 0, "txId": 7, "ts_us": 0}
    record = {"after": after, "unchanged": unchanged, "op": "u", "source": source}
    row = f"struct<id: int NOT NULL, {', '.join(f'{name}: string' for name in names)}>"
    places = f"struct<{', '.join(f'{name}: bigint NOT NULL' for name in source)}>"
    shape = (
        f"before {row}, after {row}, unchanged array<string>, op string NOT NULL, source {places} NOT NULL"
    )
    value = F.from_json(F.lit(json.dumps(record)), shape)
    records = spark.range(1).select(
        F.lit("app.public.t").alias("topic"),
        F.lit(0).alias("partition"),
        F.lit(0).cast("bigint").alias("offset"),
        F.lit(b"{}").alias("key"),
        F.concat(F.lit(b"\0\0\0\0\1"), to_avro(value, writer_schema(*names))).alias("value"),
    )
    [change] = AvroRecords(schema, {1: writer_schema(*names)}, placeholder).changes(records).collect()
    return change


def test_an_unchanged_renamed_column_is_listed_by_its_current_name(spark: SparkSession) -> None:
    versions = (TableVersion((1, 0), (ID, text("big"), N)), TableVersion((50, 0), (ID, text("large"), N)))
    schema = TableSchema("app.public.t", "public", "t", versions)
    row = update(spark, schema, {"id": 1, "big": None, "n": "x"}, unchanged=["big"])
    assert (tuple(row.after), row.unchanged, row.corrupt) == ((1, None, "x"), ["large"], None)


def test_columns_that_exchanged_names_in_steps_keep_their_values(spark: SparkSession) -> None:
    steps = [(1, "a", "b"), (50, "swap", "b"), (60, "swap", "a"), (70, "b", "a")]
    versions = tuple(TableVersion((lsn, 0), (ID, text(one), text(other), N)) for lsn, one, other in steps)
    schema = TableSchema("app.public.t", "public", "t", versions)
    row = update(spark, schema, {"id": 1, "a": "A", "b": "B", "n": "x"})
    assert (row.after.asDict(), row.corrupt) == ({"id": 1, "b": "A", "a": "B", "n": "x"}, None)


def test_a_column_with_a_dropped_ones_name_has_its_own_type(spark: SparkSession) -> None:
    anew = Column("n", "_int4", encoding="array<int>")
    versions = (
        TableVersion((1, 0), (ID, N)),
        TableVersion((50, 0), (ID,)),
        TableVersion((60, 0), (ID, anew)),
    )
    schema = TableSchema("app.public.t", "public", "t", versions)
    row = update(spark, schema, {"id": 1, "n": "x"})
    assert (tuple(row.after), row.corrupt) == ((1, None), None)


def test_the_placeholder_is_corrupt_unless_its_meaning_is_given(spark: SparkSession) -> None:
    schema = table("app.public.t", ID, text("big"))
    found = [update(spark, schema, {"id": 1, "big": HELD}, placeholder=said) for said in (None, True, False)]
    assert [(row.after.big, row.unchanged) for row in found] == [(HELD, []), (None, ["big"]), (HELD, [])]
    assert [row.corrupt and row.corrupt.partition(", in ")[0] for row in found] == [
        f"big: '{HELD}' may stand for an unchanged value: pass placeholder=True, or False if it is text",
        None,
        None,
    ]


def test_a_flat_update_without_a_record_key_is_corrupt(spark: SparkSession) -> None:
    """The table also has a column named like a member of the envelope."""
    members = {"__op": "string", "__deleted": "boolean", "__commit_lsn": "long", "__seq": "long"}
    members |= {"after": "string", "__ts_ms": "long", "__unchanged": "null", "__truncate": "null"}
    fields = [{"name": name, "type": kind} for name, kind in {"id": "int", **members}.items()]
    writer = json.dumps({"type": "record", "name": "Value", "fields": fields})
    value = F.expr(
        "struct(1 AS id, op AS __op, false AS __deleted, 10L AS __commit_lsn, offset AS __seq, 'x' AS after,"
        " 0L AS __ts_ms, null AS __unchanged, null AS __truncate)"
    )
    records = spark.createDataFrame(
        [
            ("app.public.t", 0, 0, None, "u"),
            ("app.public.t", 0, 1, b"{}", "u"),
            ("app.public.t", 0, 2, None, "c"),
        ],
        "topic string, partition int, offset long, key binary, op string",
    ).withColumn("value", F.concat(F.lit(b"\0\0\0\0\1"), to_avro(value, writer)))
    schema = table("app.public.t", ID, text("after"))
    found = AvroRecords(schema, {1: writer}, None).changes(records).orderBy("offset").collect()
    assert {tuple(row.after) for row in found} == {(1, "x")}
    reasons = [row.corrupt and row.corrupt.partition(", which")[0] for row in found]
    assert reasons == ["an update in the flat envelope without a record key", None, None]


class Registered(Registry):
    """A registry with these schemas by id."""

    def __init__(self, texts: dict[int, str]) -> None:
        self._texts = texts
        self._unknown = set()


def in_avro(value: bytes) -> Message:
    """An update of row 1 at LSN 10, written under schema 1, with these bytes in its second column."""
    after = b"\2" + b"\2" + b"\2" + bytes([2 * len(value)]) + value
    return Message(b"\0\0\0\0\1" + b"\0" + after + b"\0" + b"\2u" + b"\x14\0\x0e\0", b"{}")


def test_json_records_from_before_avro_are_read_together_with_later_ones(spark: SparkSession) -> None:
    before = (replace(ID, encoding="integer"), N)
    schema = TableSchema(
        "app.public.t", "public", "t", (TableVersion((1, 0), before), TableVersion((9, 0), (ID, N)))
    )
    in_json = change("c", 5, after={"id": 2, "n": "b"})
    written = [in_avro(b"a"), in_json, Message(b"garbage"), tombstone({"id": 3})]
    decoder = Decoder(Registered({1: writer_schema("n")}))
    found = decoder.changes(as_read(spark, "app.public.t", written), schema).collect()
    assert {
        row.offset: (row.after and tuple(row.after), row.corrupt and row.corrupt[:26]) for row in found
    } == {
        0: ((1, "a"), None),
        1: ((2, "b"), None),
        2: (None, "not in the schema registry"),
    }


# Debezium's records have the same shape, but no LSN of the commit.
DEBEZIUM = writer_schema().replace("commit_lsn", "lsn").replace('"seq"', '"sequence"')
FOREIGN = ['"string"', '["null", "string"]', '{"type": "record", "name": "Key", "fields": []}', DEBEZIUM]


@pytest.mark.parametrize("beside_ours", [True, False])
def test_records_of_another_writer_are_corrupt_one_by_one(spark: SparkSession, beside_ours: bool) -> None:
    texts = {7 + n: text for n, text in enumerate(FOREIGN)}
    written = [Message(b"\0" + number.to_bytes(4) + b"\2a", b"{}") for number in texts]
    # Something that looks like an id but is not a registry's.
    written.append(Message(b"\0\xff\xff\xff\xff", b"{}"))
    if beside_ours:
        written.append(in_avro(b"a"))
    decoder = Decoder(Registered(texts | {1: writer_schema("n")}))
    records = as_read(spark, "app.public.t", written)
    found = decoder.changes(records, table("app.public.t", ID, N)).orderBy("offset").collect()
    assert [row.corrupt and row.corrupt.partition(", in ")[0] for row in found] == [
        *(f"no record of a table's change: its schema is {number}" for number in texts),
        "not in the schema registry's wire format",
        *([None] if beside_ours else []),
    ]
    assert [row.after and tuple(row.after) for row in found[5:]] == [(1, "a")] * beside_ours
    placed = with_positions(records, Registered(texts | {1: writer_schema("n")})).orderBy("offset")
    assert [row.commit_lsn for row in placed.collect()] == [None] * 5 + [10] * beside_ours


ODD = ("timestamp", "my col", "a.b", "größe", "order-id", "1e5", "each", "field", "`", "it's", "a\\b", "${x}")


@pytest.mark.parametrize("ids", [[], [1], [1, 2]])
def test_a_column_may_have_any_name(spark: SparkSession, ids: list[int]) -> None:
    """Whether its values were written under no schema that is known, under one, or under several."""
    after = b"\2" + b"\2" + b"".join(b"\2" + bytes([2]) + bytes([97 + n]) for n in range(len(ODD)))
    body = b"\0" + after + b"\2\2" + bytes([2 * len(b"it's")]) + b"it's" + b"\0" + b"\2u" + b"\x14\0\x0e\0"
    written = [Message(b"\0" + number.to_bytes(4) + body, b"{}") for number in ids]
    written.append(Message(b"\0" + (7).to_bytes(4) + b"\2a", b"{}"))
    decoder = Decoder(Registered({7: FOREIGN[0]} | dict.fromkeys(ids, writer_schema(*ODD))))
    schema = table("app.public.t", ID, *map(text, ODD))
    found = decoder.changes(as_read(spark, "app.public.t", written), schema)
    assert found.schema["after"].dataType == schema.row_type
    *ours, foreign = found.orderBy("offset").collect()
    values = [chr(97 + n) for n in range(len(ODD))]
    assert [(tuple(row.after), row.unchanged, row.corrupt) for row in ours] == [
        ((1, *values), ["it's"], None) for _ in ids
    ]
    assert foreign.corrupt.startswith("no record of a table's change: its schema is 7")


def test_old_dates_do_not_depend_on_the_sessions_calendar(spark: SparkSession) -> None:
    day = '["null", {"type": "int", "logicalType": "date"}]'
    texts = {1: writer_schema("day").replace('["null", "string"]', day, 1)}
    # Row 1, 200,000 days before 1970.
    value = b"\0\0\0\0\1" + b"\0" + b"\2\2\2" + b"\xff\xb4\x18" + b"\0" + b"\2u" + b"\x14\0\x0e\0"
    schema = table("app.public.t", ID, Column("day", "date", encoding="date"))
    spark.conf.set("spark.sql.avro.datetimeRebaseModeInRead", "LEGACY")
    try:
        records = as_read(spark, "app.public.t", [Message(value, b"{}")])
        [row] = AvroRecords(schema, texts, None).changes(records).select("after.day", "corrupt").collect()
    finally:
        spark.conf.unset("spark.sql.avro.datetimeRebaseModeInRead")
    assert (row.day, row.corrupt) == (date(1970, 1, 1) - timedelta(200_000), None)


def test_a_record_whose_schema_was_registered_later_is_corrupt(spark: SparkSession) -> None:
    records = as_read(spark, "app.public.t", [in_avro(b"a")])
    [row] = (
        AvroRecords(table("app.public.t", ID, N), {2: writer_schema("n")}, None).changes(records).collect()
    )
    assert row.corrupt.startswith(
        "written under a schema that the registry did not have when it was asked: 1, "
    )


def test_a_value_from_before_its_column_became_text_is_not_formatted_by_spark(spark: SparkSession) -> None:
    texts = {1: writer_schema("n").replace('["null", "string"]', '["null", "double"]', 1)}
    value = b"\0\0\0\0\1" + b"\0" + b"\2\2\2" + struct.pack("<d", 1) + b"\0" + b"\2u" + b"\x14\0\x0e\0"
    number = Column("n", "float8", encoding="double")
    versions = (TableVersion((1, 0), (ID, number)), TableVersion((50, 0), (ID, N)))
    schema = TableSchema("app.public.t", "public", "t", versions)
    records = as_read(spark, "app.public.t", [Message(value, b"{}")])
    [row] = AvroRecords(schema, texts, None).changes(records).collect()
    assert (row.after.n, row.corrupt[:38]) == (None, "n: the value is not exactly a string, ")
    [row] = AvroRecords(schema.as_text("n"), texts, None).changes(records).collect()
    assert (row.after.n, row.corrupt) == ("1.0", None)


def test_a_time_read_as_text_does_not_depend_on_the_sessions_zone(spark: SparkSession) -> None:
    at = Column("at", "timestamptz", encoding="timestamp-micros", text=True)
    value = "timestamp_micros(1500000)"
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        [row] = spark.range(1).selectExpr(alias(converted(value, TimestampType(), at), "at")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert row.at == "1970-01-01 00:00:01.5"


@pytest.mark.parametrize(
    ("number", "reason"), [(-(10**37), None), (10**50 - 1, "wide: the value is not exactly")]
)
def test_a_number_with_more_digits_than_spark_has_is_corrupt(
    spark: SparkSession, number: int, reason: str | None
) -> None:
    decimal = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2})
    texts = {1: writer_schema("wide").replace('["null", "string"]', f'["null", {decimal}]', 1)}
    wide = Column("wide", "numeric", numeric(50, 2), encoding="decimal(50,2)")
    records = as_read(
        spark, "app.public.t", [in_avro(number.to_bytes(number.bit_length() // 8 + 1, signed=True))]
    )
    [row] = AvroRecords(table("app.public.t", ID, wide), texts, None).changes(records).collect()
    assert row.after.wide == (None if reason else "-100000000000000000000000000000000000.00")
    assert (row.corrupt and row.corrupt[:29]) == (reason and reason[:29])


@pytest.mark.parametrize("in_avro", [True, False])
def test_a_column_takes_no_calls_into_java(spark: SparkSession, in_avro: bool) -> None:
    """Built call by call, a column takes hundreds."""

    def calls(columns: int) -> list[int]:
        """Those of a schema's first batch and of its second."""
        names = [f"c{number}" for number in range(columns)]
        decoder = Decoder(Registered({1: writer_schema(*names)}) if in_avro else None)
        written = Message(b"\0\0\0\0\1", b"{}") if in_avro else change("d", 10, before={"id": 1})
        records = as_read(spark, "app.public.t", [written])
        schema = table("app.public.t", ID, *map(text, names))
        made = []
        for _ in range(2):
            with counted_calls(spark) as of_batch:
                decoder.changes(records, schema)
            made.append(of_batch.count)
        return made

    calls(1)  # names of Java's packages are looked up once
    assert calls(10) == calls(5)
