"""The schemas: their names, what may be null, and whether a new version reads an old one's records."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import fastavro
import pytest

from pgrelay.encode.avro.body import header
from pgrelay.encode.avro.schema import Schemas, successor
from pgrelay.encode.needs import Announcement, FactsNeeded, TopicNeeded
from pgrelay.encode.options import RecordOptions
from tests.encode.decoded_avro import SchemaNumbers, avro_records
from tests.encode.encoding import NO_FACTS, NOW, OPTIONS, encoder_of, transaction
from tests.wire import build
from tests.wire.build import INT4, INT8, Column

AVRO: Final = replace(OPTIONS, format="avro")
OID: Final = 16384
ID: Final = Column("id", INT4, key=True)


def relation(*columns: Column, name: str = "orders", schema: str = "public", identity: str = "d") -> bytes:
    return build.relation(OID, schema, name, identity, columns)


def announcement(
    message: bytes, options: RecordOptions = AVRO, routes: Sequence[tuple[str, str]] = ()
) -> Announcement:
    """The announcement of a relation before its first row."""
    encoder = encoder_of(options, routes=routes)
    encoder.feed(transaction(message, build.insert(OID, [])))
    encoder.encode(NOW)
    assert isinstance(encoder.need, FactsNeeded)
    encoder.provide_facts(NO_FACTS)
    encoder.encode(NOW)
    assert isinstance(encoder.need, Announcement)
    return encoder.need


def schemas_of(
    message: bytes, options: RecordOptions = AVRO, routes: Sequence[tuple[str, str]] = ()
) -> Schemas:
    schemas = announcement(message, options, routes).schemas
    assert schemas is not None
    return schemas


def value_schema(message: bytes, options: RecordOptions = AVRO) -> Any:
    return json.loads(schemas_of(message, options).value)


def row_schema(message: bytes) -> Any:
    """The record of a row, in Debezium's envelope."""
    before = value_schema(message)["fields"][0]
    assert before["name"] == "before"
    return before["type"][1]


def test_a_schemas_namespace_names_the_table() -> None:
    schemas = schemas_of(relation(ID))
    assert schemas.key is not None
    key, value = json.loads(schemas.key), json.loads(schemas.value)
    assert (schemas.topic, schemas.about) == ("app.public.orders", "public.orders")
    assert (key["namespace"], key["name"]) == ("app.public.orders", "Key")
    assert (value["namespace"], value["name"]) == ("app.public.orders", "Envelope")
    assert row_schema(relation(ID))["name"] == "Value"


def test_illegal_names_are_escaped_and_kept_in_pgrelay_name() -> None:
    row = row_schema(relation(ID, Column("größe"), name="my.orders", schema="2"))
    assert row["namespace"] == "app._x32_.my_x2e_orders"
    assert [field.get("pgrelay.name") for field in row["fields"]] == [None, "größe"]
    assert row["fields"][1]["name"] == "gr_xc3b6c39f_e"


def test_tables_that_share_a_topic_share_its_schemas() -> None:
    routes = [(r"public\.orders_.*", "{prefix}.all-orders")]
    one = schemas_of(relation(ID, name="orders_1"), routes=routes)
    other = schemas_of(relation(ID, name="orders_2"), routes=routes)
    assert (one.key, one.value) == (other.key, other.value)
    assert json.loads(one.value)["namespace"] == "app.all_x2d_orders"


def test_columns_outside_the_key_are_nullable_with_default_null() -> None:
    fields = row_schema(relation(ID, Column("name")))["fields"]
    assert fields == [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ]


def test_a_table_without_a_key_has_no_key_schema() -> None:
    assert schemas_of(relation(Column("id", INT4), identity="n")).key is None
    assert schemas_of(relation(ID), replace(AVRO, key=False)).key is None


def test_json_records_need_no_avro_schemas() -> None:
    assert announcement(relation(ID), OPTIONS).schemas is None


def test_the_schema_topic_names_the_avro_types() -> None:
    value = announcement(relation(ID, Column("list", 1007), Column("at", 1184))).record[2]
    assert value is not None
    encodings = [column["encoding"] for column in json.loads(value)["columns"]]
    assert encodings == ["int", "array<int>", "timestamp-micros"]


@pytest.mark.parametrize("envelope", ["debezium", "flat"])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([ID, Column("a")], [ID, Column("a"), Column("b")], {"id": 1, "a": "x", "b": None}),
        ([ID, Column("a")], [ID], {"id": 1}),
        ([ID, Column("a")], [ID, Column("b")], {"id": 1, "b": None}),
        ([ID, Column("a")], [ID._replace(type_oid=INT8), Column("a")], {"id": 1, "a": "x"}),
    ],
    ids=["added", "dropped", "renamed", "widened"],
)
def test_a_new_schema_reads_the_records_of_the_old(
    old: list[Column], new: list[Column], expected: dict[str, Any], envelope: Any
) -> None:
    options = replace(AVRO, envelope=envelope)
    reader = fastavro.parse_schema(value_schema(relation(*new), options))
    writer = fastavro.parse_schema(value_schema(relation(*old), options))
    body = raw_values(options, relation(*old), build.insert(OID, ["1", "x"]))[0]
    value: Any = fastavro.schemaless_reader(io.BytesIO(body[5:]), writer, reader)
    row = value["after"] if envelope == "debezium" else value
    assert {name: row[name] for name in expected} == expected


def raw_values(options: RecordOptions, *messages: bytes) -> list[bytes]:
    kept: list[bytes] = []

    class Keeping(SchemaNumbers):
        def written(self, record: Any) -> Any:
            kept.append(record[2])
            return super().written(record)

    avro_records(encoder_of(options), transaction(*messages), numbers=Keeping())
    return kept


def test_a_changed_relation_is_registered_before_its_next_row() -> None:
    numbers = SchemaNumbers()
    found = avro_records(
        encoder_of(AVRO),
        transaction(
            relation(ID),
            build.insert(OID, ["1"]),
            relation(ID, Column("a")),
            build.insert(OID, ["2", "x"]),
            relation(ID),
            build.insert(OID, ["3"]),
        ),
        numbers=numbers,
    )
    assert [record.value["after"] for record in found] == [{"id": 1}, {"id": 2, "a": "x"}, {"id": 3}]
    assert len(numbers.subjects) == 6
    assert len(numbers.texts) == 3
    assert {subject for subject, _ in numbers.subjects} == {
        "app.public.orders-key",
        "app.public.orders-value",
    }


def test_a_schema_is_registered_once_and_not_for_each_row() -> None:
    numbers = SchemaNumbers()
    inserts = [build.insert(OID, [str(number)]) for number in range(50)]
    avro_records(encoder_of(AVRO), transaction(relation(ID), *inserts), numbers=numbers)
    assert len(numbers.subjects) == 2


def test_the_topics_of_messages_and_transactions_are_needed_once() -> None:
    encoder, needs = encoder_of(replace(AVRO, transactions=True)), list[TopicNeeded]()
    for _ in range(2):
        encoder.feed(transaction(build.message("p", b"x"), build.message("p", b"y")))
        encoder.encode(NOW)
        while encoder.need is not None:
            assert isinstance(encoder.need, TopicNeeded)
            needs.append(encoder.need)
            encoder.confirm_topic()
            encoder.encode(NOW)
    assert [need.topic for need in needs] == ["app.transaction", "app.message"]
    assert all(need.schemas is not None for need in needs)


def test_the_fixed_schemas_are_valid() -> None:
    for options in (AVRO, replace(AVRO, envelope="flat")):
        found = avro_records(
            encoder_of(replace(options, transactions=True)), transaction(build.message("p", b"x"))
        )
        assert [record.topic for record in found] == ["app.transaction", "app.message", "app.transaction"]


@pytest.mark.parametrize("envelope", ["debezium", "flat"])
def test_successor_keeps_another_writers_name_and_adds_our_fields(envelope: Any) -> None:
    """Its rows are left out, since the other writer may have them too."""
    theirs = {"type": "record", "name": "Envelope", "namespace": "app.public.orders", "fields": []}
    ours = json.loads(successor(json.dumps(theirs), envelope) or "null")
    assert (ours["name"], ours["namespace"]) == ("Envelope", "app.public.orders")
    value = value_schema(relation(ID), replace(AVRO, envelope=envelope))
    assert ours["fields"] == value["fields"][-len(ours["fields"]) :]
    assert successor(json.dumps(value, indent=2), envelope) is None


def test_a_header_is_five_bytes() -> None:
    assert len(header(2**31 - 1)) == 5
