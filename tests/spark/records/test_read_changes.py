"""Records read as typed changes: every type in every encoding, and nothing silently rounded or null."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from pgrelay import spark as pg
from pgrelay.spark.records.json_records import JsonRecords
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic
from tests.spark.handmade_records import (
    Message,
    Topic,
    as_read,
    change,
    changes_of,
    flat,
    in_local_time,
    numeric,
    produce,
    rows,
    table,
    tombstone,
)

ID = Column("id", "int4", key=True, encoding="integer")

# Name, type, modifier, encoding, the value's JSON, the value in Spark.
VALUES: list[tuple[str, str, int, str, Any, Any]] = [
    ("b", "bool", -1, "boolean", True, True),
    ("i2", "int2", -1, "integer", -32768, -32768),
    ("i8", "int8", -1, "integer", 2**63 - 1, 2**63 - 1),
    ("oid", "oid", -1, "integer", 2**32 - 1, 2**32 - 1),
    ("f4", "float4", -1, "number", 0.5, 0.5),
    ("f8", "float8", -1, "number", 1e-300, 1e-300),
    ("inf", "float8", -1, "number", "-Infinity", float("-inf")),
    ("digits", "numeric", numeric(38, 10), "string", "-1234567890123456789012345678.0000000001", None),
    ("number", "numeric", numeric(30, 2), "number", None, None),  # below: json.dumps would round it
    ("base64", "numeric", numeric(8, 2), "decimal-base64", "AcI=", Decimal("4.50")),
    ("minus", "numeric", numeric(8, 2), "decimal-base64", "/w==", Decimal("-0.01")),
    ("free", "numeric", -1, "string", "0.1250", "0.1250"),
    ("variable", "numeric", -1, "variable-decimal", {"scale": 3, "value": "fQ=="}, "0.125"),
    ("nan", "numeric", -1, "variable-decimal", "NaN", "NaN"),
    ("text", "text", -1, "string", 'a"\\\n\u00e9\U0001f600', 'a"\\\n\u00e9\U0001f600'),
    ("uuid", "uuid", -1, "string", "a0ee-bc99", "a0ee-bc99"),
    ("money", "money", -1, "string", "-1.05", "-1.05"),
    ("bytes", "bytea", -1, "base64", "AP8=", b"\x00\xff"),
    ("hex", "bytea", -1, "hex", "00ff", b"\x00\xff"),
    ("day", "date", -1, "iso-date", "0001-01-01", date(1, 1, 1)),
    ("days", "date", -1, "epoch-days", -1, date(1969, 12, 31)),
    (
        "at",
        "timestamp",
        -1,
        "iso-timestamp",
        "1582-10-10T14:54:02.343135",
        datetime(1582, 10, 10, 14, 54, 2, 343135),
    ),
    ("micros", "timestamp", -1, "micros", -62135596799999999, datetime(1, 1, 1, 0, 0, 0, 1)),
    (
        "seen",
        "timestamptz",
        -1,
        "iso-timestamp",
        "2026-11-20T14:54:02.343135Z",
        in_local_time(datetime(2026, 11, 20, 14, 54, 2, 343135, UTC)),
    ),
    ("opens", "time", -1, "iso-time", "24:00:00", "24:00:00"),
    ("opens_us", "time", -1, "micros", 53642500000, "14:54:02.5"),
    ("shuts_us", "timetz", -1, "micros", 86400000000 - 1, "23:59:59.999999+00"),
    ("lasts", "interval", -1, "iso-duration", "P1DT2H30M", "P1DT2H30M"),
    ("doc", "jsonb", -1, "string", '{"a": 1.10}', '{"a": 1.10}'),
    ("inline", "jsonb", -1, "json", {"a": [1, "x"]}, '{"a":[1,"x"]}'),
    ("word", "jsonb", -1, "json", "a", '"a"'),
    ("tags", "_text", -1, "array<string>", ["x", None], ["x", None]),
    ("ints", "_int4", -1, "array<integer>", [1, None], [1, None]),
    ("dates", "_date", -1, "array<iso-date>", ["2026-01-02"], [date(2026, 1, 2)]),
    ("decimals", "_numeric", numeric(6, 2), "array<decimal-base64>", ["AcI="], [Decimal("4.50")]),
    ("pairs", "hstore", -1, "object", {"a": "1", "b": None}, {"a": "1", "b": None}),
    ("mood", "mood", -1, "string", "sad", "sad"),
    ("masked", "int4", -1, "string", "***", "***"),
    ("odd `name.x", "int4", -1, "integer", 3, 3),
]
EXACT = {
    "digits": Decimal("-1234567890123456789012345678.0000000001"),
    "number": Decimal("1234567890123456789012345678.10"),
}


def every_type(topic: str) -> TableSchema:
    columns = [Column(name, kind, typmod, encoding=encoding) for name, kind, typmod, encoding, _, _ in VALUES]
    return table(topic, ID, *columns)


def every_value() -> dict[str, Any]:
    return {"id": 1, **{name: value for name, _, _, _, value, _ in VALUES}, "number": "@"}


def expected() -> dict[str, Any]:
    return {"id": 1, **{name: value for name, *_, value in VALUES}, **EXACT}


def with_number(message: Message) -> Message:
    """Postgres's digits as a JSON number."""
    assert message.value is not None
    return Message(message.value.replace(b'"@"', b"1234567890123456789012345678.10"), message.key)


def test_every_type_is_exact_in_every_encoding(spark: SparkSession, kafka: KafkaServer, prefix: str) -> None:
    topic = f"{prefix}.public.t"
    create_topic(kafka.bootstrap, topic)
    schema = every_type(topic)
    nulls = dict.fromkeys(every_value()) | {"id": 2}
    written = [
        with_number(change("c", 10, after=every_value(), key={"id": 1})),
        change("u", 11, 3, before={"id": 2}, after=nulls, key={"id": 2}),
        change("d", 12, before={"id": 2}, key={"id": 2}),
        tombstone({"id": 2}),
        with_number(flat("c", 13, 0, every_value())),
        flat("d", 14, 1, {"id": 2}),
        change("t", 15),
    ]
    produce(kafka.bootstrap, topic, written)
    changes = pg.read_changes(spark, kafka.bootstrap, topic, schema=schema)
    assert changes.columns == [
        *("topic", "partition", "offset", "op", "commit_lsn", "seq", "txid", "ts"),
        *("key", "before", "after", "unchanged", "corrupt"),
    ]
    found = changes.orderBy("offset").collect()
    assert [row.corrupt for row in found] == [None] * 6
    assert [(row.op, row.commit_lsn, row.seq) for row in found] == [
        *(("c", 10, 0), ("u", 11, 3), ("d", 12, 0)),
        *(("c", 13, 0), ("d", 14, 1), ("t", 15, 0)),
    ]
    create, update, delete, flat_create, flat_delete, truncate = found
    assert create.after.asDict() == expected()
    assert (create.before, create.key, create.txid) == (None, Row(id=1), 7)
    assert create.ts.astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 1, 10, tzinfo=UTC)
    assert update.after.asDict() == nulls
    assert delete.before.asDict() == nulls
    assert delete.after is None
    assert flat_create.after.asDict() == expected()
    assert flat_delete.before.asDict() == nulls
    assert flat_delete.after is None
    assert (truncate.before, truncate.after, truncate.key) == (None, None, None)


# Each with the beginning of `corrupt`; the column is null.
TRAPS: list[tuple[str, str, int, str, Any, str]] = [
    ("v", "numeric", numeric(12, 2), "string", "1.239", "v: '1.239' is not exactly a decimal(12,2)"),
    ("v", "numeric", numeric(12, 2), "string", "NaN", "v: 'NaN' is not exactly a decimal(12,2)"),
    ("v", "numeric", numeric(12, 2), "string", "12345678901.00", "v: '12345678901.00' is not exactly"),
    ("v", "date", -1, "iso-date", "0044-03-15 BC", "v: '0044-03-15 BC' is not exactly a date"),
    ("v", "date", -1, "iso-date", "infinity", "v: 'infinity' is not exactly a date"),
    ("v", "date", -1, "epoch-days", "-infinity", "v: '-infinity' is not exactly a date"),
    ("v", "timestamp", -1, "iso-timestamp", "infinity", "v: 'infinity' is not exactly a timestamp_ntz"),
    ("v", "timestamp", -1, "iso-timestamp", "0044-03-15T10:00:00 BC", "v: '0044-03-15T10:00:00 BC' is not"),
    ("v", "timestamptz", -1, "iso-timestamp", "294277-01-01T00:00:00Z", "v: '294277-01-01T00:00:00Z' is not"),
    # Of a type that the column has only later, for who reads on by an old schema.
    ("v", "date", -1, "iso-date", "2026-11-20T14:54:02", "v: '2026-11-20T14:54:02' is not exactly a date"),
    ("v", "timestamp", -1, "iso-timestamp", "2026-11-20T14:54:02Z", "v: '2026-11-20T14:54:02Z' is not"),
    ("v", "timestamp", -1, "iso-timestamp", "2026-11-20", "v: '2026-11-20' is not exactly a timestamp_ntz"),
    ("v", "timestamptz", -1, "iso-timestamp", "2026-11-20T14:54:02", "v: '2026-11-20T14:54:02' is not"),
    ("v", "int4", -1, "integer", 2**31, "v: '2147483648' is not exactly a int"),
    ("v", "int2", -1, "integer", 1.5, "v: '1.5' is not exactly a smallint"),
    ("v", "_int4", -1, "array<integer>", [[1, 2], [3, 4]], "v: '[[1,2],[3,4]]' is not exactly a array<int>"),
    ("v", "_text", -1, "array<string>", [["a"]], "v: '[[\"a\"]]' is not exactly a array<string>"),
    ("v", "_int4", -1, "array<integer>", [1, 2**31], "v: '[1,2147483648]' is not exactly a array<int>"),
    ("v", "bytea", -1, "hex", "0g", "v: '0g' is not exactly a binary"),
    ("v", "numeric", -1, "variable-decimal", {"scale": 0, "value": "f" * 24}, 'v: \'{"scale":0'),
    (
        "v",
        "text",
        -1,
        "string",
        "__debezium_unavailable_value",
        "v: '__debezium_unavailable_value' may stand for",
    ),
]


def test_a_value_that_a_type_can_not_hold_is_corrupt_and_never_rounded(topic: Topic) -> None:
    columns = [
        Column(f"v{n}", kind, typmod, encoding=e) for n, (_, kind, typmod, e, _, _) in enumerate(TRAPS)
    ]
    schema = table(topic.name, ID, *columns)
    good = {"id": 1} | {f"v{n}": None for n in range(len(TRAPS))}
    topic.write(*(change("c", 10, n, after=good | {f"v{n}": trap[4]}) for n, trap in enumerate(TRAPS)))
    found = topic.changes(schema).orderBy("offset").collect()
    for n, (row, trap) in enumerate(zip(found, TRAPS, strict=True)):
        assert row.corrupt is not None, trap
        assert row.corrupt.startswith(trap[5].replace("v:", f"v{n}:")), trap
        assert '"commit_lsn":10' in row.corrupt  # the record itself
        assert trap[1] == "text" or row.after[f"v{n}"] is None
    as_text = topic.changes(schema.as_text("v0", "v1", "v3", "v15")).orderBy("offset").collect()
    assert [as_text[n].corrupt for n in (0, 1, 3, 15)] == [None] * 4
    assert as_text[0].after.v0 == "1.239"
    assert as_text[1].after.v1 == "NaN"
    assert as_text[3].after.v3 == "0044-03-15 BC"
    assert as_text[15].after.v15 == "[[1,2],[3,4]]"


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "America/St_Johns"},
        {
            "spark.sql.session.timeZone": "Asia/Kathmandu",
            "spark.sql.timestampType": "TIMESTAMP_NTZ",
            "spark.sql.caseSensitive": "true",
            "spark.sql.parser.escapedStringLiterals": "true",
        },
    ],
)
def test_session_settings_do_not_change_what_is_read(spark: SparkSession, settings: dict[str, str]) -> None:
    """Several at once: none would hide what another does to a value."""
    columns = [
        Column(f"v{n}", kind, typmod, encoding=e) for n, (_, kind, typmod, e, _, _) in enumerate(TRAPS)
    ]
    nothing = {"id": 1} | {f"v{n}": None for n in range(len(TRAPS))}
    trapped = [change("c", 10, n, after=nothing | {f"v{n}": trap[4]}) for n, trap in enumerate(TRAPS)]
    sound = [with_number(change("c", 10, after=every_value())), with_number(flat("c", 11, 0, every_value()))]
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        read = JsonRecords(every_type("t"), None).changes(as_read(spark, "t", sound))
        trapped_changes = JsonRecords(table("t", ID, *columns), None).changes(as_read(spark, "t", trapped))
        kinds, found = read.schema["after"].dataType, read.orderBy("offset").collect()
        corrupt = [row.corrupt for row in trapped_changes.orderBy("offset").collect()]
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert kinds == every_type("t").row_type
    assert [(row.corrupt, row.after.asDict()) for row in found] == [(None, expected())] * 2
    assert found[0].ts.astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 1, 10, tzinfo=UTC)
    for n, trap in enumerate(TRAPS):
        assert (corrupt[n] or "").startswith(trap[5].replace("v:", f"v{n}:")), trap


def test_a_setting_for_backslashes_changes_no_value(spark: SparkSession) -> None:
    """With it, Spark takes a backslash in SQL's texts for itself."""
    names = ("it's", "a\\b", "'\\")
    inline = Column("d", "jsonb", encoding="json")
    schema = table("t", ID, *(Column(name, "text") for name in names), inline)
    sound = dict.fromkeys(names, "v")
    rounded = change("c", 10, after={"id": 1, **sound, "d": [1, "x", 10**42 + 1]})
    missing = change("u", 11, after={"id": 1, "it's": "v", "d": {}}, unchanged=list(names[1:]))
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        first, second = JsonRecords(schema, None).changes(as_read(spark, "t", [rounded, missing])).collect()
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert first.corrupt.startswith('d: \'[1,"x",1')
    assert "' is not a document that Spark keeps exactly, in {" in first.corrupt
    assert (second.corrupt, tuple(second.after)) == (None, (1, "v", None, None, "{}"))
    assert second.unchanged == list(names[1:])


def test_a_flat_update_without_a_record_key_is_corrupt(spark: SparkSession) -> None:
    """Without an old row it shows neither a key change nor which row of a table without a key changed."""
    schema = table("app.public.t", ID)
    row = {"id": 1}
    messages = [
        flat("u", 10, row=row),
        flat("u", 11, row=row, key=row),
        flat("c", 12, row=row),
        flat("d", 13, row=row),
        change("u", 14, after=row),
    ]
    found = changes_of(spark, schema, messages).orderBy("offset").collect()
    assert [row.corrupt for row in found[1:]] == [None] * 4
    assert found[0].corrupt.startswith("an update in the flat envelope without a record key")
    assert found[0].after == Row(id=1)


def test_unknown_or_missing_columns_make_a_record_corrupt(topic: Topic) -> None:
    schema = table(topic.name, ID, Column("big", "text"))
    topic.write(
        change("c", 10, after={"id": 1, "big": "x", "brand_new": 1}),
        change("c", 11, after={"id": 1}),
        change("u", 12, after={"id": 1}, unchanged=["big"]),
        Message(b"not JSON"),
        Message(b"{}"),
        Message(b"\x00\x00\x00\x00\x01..."),
    )
    found = topic.changes(schema).orderBy("offset").collect()
    reasons = [None if row.corrupt is None else row.corrupt.partition(", in ")[0] for row in found]
    assert reasons == [
        "columns that the schema does not have: brand_new",
        "columns of the schema that are missing: big",
        None,
        "no record of a table's change in JSON",
        "no record of a table's change in JSON",
        "a record in Avro: pass the registry",
    ]
    assert found[2].unchanged == ["big"]


def test_the_placeholder_means_unchanged_if_configured(topic: Topic) -> None:
    held = "__debezium_unavailable_value"
    schema = table(topic.name, ID, Column("big", "text"), Column("list", "_int4", encoding="array<integer>"))
    topic.write(change("u", 10, after={"id": 1, "big": held, "list": held}))
    [row] = topic.changes(schema, placeholder=True).collect()
    assert (row.after.big, row.after.list, row.unchanged, row.corrupt) == (None, None, ["big", "list"], None)
    topic.write(change("u", 11, after={"id": 1, "big": held, "list": [1]}))
    row = topic.changes(schema, placeholder=False).orderBy("offset").collect()[1]
    assert (row.after.big, row.corrupt) == (held, None)


def test_each_row_is_read_with_the_schema_of_its_time(topic: Topic) -> None:
    old = (ID, Column("title", "text"), Column("n", "numeric", numeric(8, 2), encoding="string"))
    new = (ID, Column("name", "text"), Column("n", "numeric", numeric(8, 2), encoding="decimal-base64"))
    last = (*new[:2], Column("n", "numeric", numeric(12, 4), encoding="decimal-base64"), Column("x", "int4"))
    versions = (TableVersion((1, 0), old), TableVersion((20, 2), new), TableVersion((30, 0), last))
    schema = TableSchema(topic.name, "public", "t", versions)
    topic.write(
        change("c", 20, 1, after={"id": 1, "title": "a", "n": "4.50"}),
        change("c", 20, 2, after={"id": 2, "name": "b", "n": "AcI="}),
        change("c", 30, 0, after={"id": 3, "name": "c", "n": "AK/I", "x": "7"}),
    )
    found = topic.changes(schema).orderBy("offset").collect()
    assert [row.corrupt for row in found] == [None] * 3
    assert [tuple(row.after) for row in found] == [
        (1, "a", Decimal("4.5000"), None),
        (2, "b", Decimal("4.5000"), None),
        (3, "c", Decimal("4.5000"), "7"),
    ]


def test_a_value_without_a_cast_to_the_later_type_is_corrupt(topic: Topic) -> None:
    old = (ID, Column("day", "int4", encoding="integer"), Column("tags", "text"))
    new = (ID, Column("day", "date", encoding="iso-date"), Column("tags", "_text", encoding="array<string>"))
    versions = (TableVersion((1, 0), old), TableVersion((20, 0), new))
    topic.write(
        change("c", 10, after={"id": 1, "day": 7, "tags": "a,b"}),
        change("c", 20, after={"id": 2, "day": "2026-11-23", "tags": ["a", "b"]}),
    )
    schema = TableSchema(topic.name, "public", "t", versions)
    first, second = topic.changes(schema).orderBy("offset").collect()
    assert first.corrupt.startswith("day: '7' is not exactly a date, in ")
    assert (tuple(second.after), second.corrupt) == ((2, date(2026, 11, 23), ["a", "b"]), None)


def test_numbers_and_documents_are_read_after_a_rename_of_case_only(spark: SparkSession) -> None:
    number, document = Column("N", "numeric", encoding="number"), Column("Doc", "json", encoding="json")
    renamed = replace(number, name="n"), replace(document, name="doc")
    versions = TableVersion((1, 0), (ID, number, document)), TableVersion((20, 0), (ID, *renamed))
    messages = [
        change("c", 10, after={"id": 1, "N": 1.5, "Doc": [1]}),
        change("c", 20, after={"id": 2, "n": 2.5, "doc": {"a": 2}}),
        flat("c", 10, row={"id": 3, "N": 3.5, "Doc": None}, key={"id": 3}),
    ]
    found = changes_of(spark, TableSchema("app.public.t", "public", "t", versions), messages)
    assert rows(found.select("after.*", "corrupt")) == {
        (1, "1.5", "[1]", None): 1,
        (2, "2.5", '{"a":2}', None): 1,
        (3, "3.5", None, None): 1,
    }


@pytest.mark.parametrize("placeholder", [None, True])
def test_an_unchanged_renamed_column_is_listed_by_its_current_name(
    topic: Topic, target: str, placeholder: bool | None
) -> None:
    n = Column("n", "int4", encoding="integer")
    versions = ([ID, Column("big", "text"), n], [ID, Column("large", "text"), n])
    known_versions = [TableVersion((1 + 20 * number, 0), tuple(each)) for number, each in enumerate(versions)]
    schema = TableSchema(topic.name, "public", "t", tuple(known_versions), "1")
    left_out = {"big": "__debezium_unavailable_value"} if placeholder else {}
    names = None if placeholder else ["big"]
    topic.write(
        change("c", 10, after={"id": 1, "big": "x", "n": 1}),
        change("u", 11, after={"id": 1, **left_out, "n": 2}, unchanged=names),
    )
    changes = topic.changes(schema, placeholder=placeholder)
    row = changes.where("op = 'u'").first()
    assert row is not None
    assert (tuple(row.after), row.unchanged, row.corrupt) == ((1, None, 2), ["large"], None)
    pg.apply_changes(changes, target, schema=schema)
    assert rows(topic.spark.table(target)) == {(1, "x", 2): 1}


@pytest.mark.parametrize("zone", ["America/New_York"])
def test_the_sessions_zone_does_not_shift_timestamps(topic: Topic, zone: str) -> None:
    schema = table(topic.name, ID, Column("at", "timestamp", encoding="micros"))
    topic.write(change("c", 10, after={"id": 1, "at": 0}))
    before = topic.spark.conf.get("spark.sql.session.timeZone")
    topic.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        [row] = topic.changes(schema).selectExpr("cast(after.at AS string) AS at").collect()
    finally:
        topic.spark.conf.set("spark.sql.session.timeZone", str(before))
    assert row.at == "1970-01-01 00:00:00"
