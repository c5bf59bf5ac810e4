"""Schema records: a table's columns, and when they are announced."""

from dataclasses import replace
from typing import Any, Final, Literal

import pytest

from pgrelay.assembly.events import Event
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.needs import Announcement
from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import Segment
from pgrelay.encode.selection import Selection
from pgrelay.encode.types import ColumnType
from tests.encode.encoding import (
    NO_FACTS,
    OPTIONS,
    Written,
    encoder_of,
    outcomes,
    transaction,
    written,
)
from tests.encode.json_values import numeric_typmod
from tests.wire import build
from tests.wire.build import DATE, INT4, NUMERIC, TEXT, Column

OID: Final = 16384
ID, NAME, AGE = Column("id", INT4, key=True), Column("name"), Column("age", INT4)


def relation(*columns: Column, identity: str = "d", name: str = "people") -> bytes:
    return build.relation(OID, "public", name, identity, columns)


def announced(encoder: Encoder, events: list[Event], facts: RelationFacts = NO_FACTS) -> list[Written | int]:
    """The events' schema records in order, and between them the number of rows."""
    came: list[Written | int] = []
    for outcome in outcomes(encoder, events, facts):
        if isinstance(outcome, Announcement):
            record = written(outcome.record)
            assert record.key == {"topic": outcome.topic}
            came.append(record)
        elif isinstance(outcome, Segment) and outcome.records:
            came.append(len(outcome.records))
    return came


ROWS: Final = build.truncate([OID])
"""A change that needs the table's schema, whatever its columns are."""


def schemas(encoder: Encoder, events: list[Event], facts: RelationFacts = NO_FACTS) -> list[Any]:
    return [it.value for it in announced(encoder, events, facts) if isinstance(it, Written)]


def schema_of(
    *columns: Column, options: Any = OPTIONS, facts: RelationFacts = NO_FACTS, identity: str = "d"
) -> Any:
    """The schema record's value of a table with these columns."""
    events = transaction(relation(*columns, identity=identity), ROWS)
    (schema,) = schemas(encoder_of(options), events, facts)
    return schema


def names(schema: Any) -> list[str]:
    return [column["name"] for column in schema["columns"]]


class TestRecord:
    def test_a_schema_record_holds_what_a_consumer_needs(self) -> None:
        record, _ = announced(encoder_of(), transaction(relation(ID, NAME), ROWS))
        assert isinstance(record, Written)
        assert (record.topic, record.key, record.partition) == (
            "app.schema",
            {"topic": "app.public.people"},
            0,
        )
        assert record.value == {
            "systemid": "7301",
            "topic": "app.public.people",
            "schema": "public",
            "table": "people",
            "relation_id": OID,
            "replica_identity": "default",
            "lsn": 0x1800,
            "seq": 0,
            "columns": [
                {
                    "name": "id",
                    "type_oid": 23,
                    "type_name": "int4",
                    "type_modifier": -1,
                    "key": True,
                    "encoding": "integer",
                },
                {
                    "name": "name",
                    "type_oid": 25,
                    "type_name": "text",
                    "type_modifier": -1,
                    "key": False,
                    "encoding": "string",
                },
            ],
        }

    @pytest.mark.parametrize(
        ("identity", "name"), [("d", "default"), ("n", "nothing"), ("f", "full"), ("i", "index")]
    )
    def test_replica_identities_have_their_names(self, identity: str, name: str) -> None:
        assert schema_of(ID, identity=identity)["replica_identity"] == name

    def test_under_full_the_key_is_the_primary_key(self) -> None:
        flagged = Column("name", TEXT, key=True)
        schema = schema_of(ID, flagged, identity="f", facts=RelationFacts(("id",)))
        assert [column["key"] for column in schema["columns"]] == [True, False]

    @pytest.mark.parametrize(
        ("choices", "numeric", "price", "date"),
        [
            (Encodings(), "string", "string", "iso-date"),
            (Encodings(numeric="double"), "number", "number", "iso-date"),
            (Encodings("precise", "debezium"), "variable-decimal", "decimal-base64", "epoch-days"),
        ],
    )
    def test_each_column_names_its_encoding(
        self, choices: Encodings, numeric: str, price: str, date: str
    ) -> None:
        columns = (
            Column("n", NUMERIC),
            Column("price", NUMERIC, typmod=numeric_typmod(8, 2)),
            Column("day", DATE),
        )
        schema = schema_of(*columns, options=replace(OPTIONS, encodings=choices))
        assert [column["encoding"] for column in schema["columns"]] == [numeric, price, date]
        assert [column["type_modifier"] for column in schema["columns"]] == [-1, numeric_typmod(8, 2), -1]

    def test_a_domain_has_its_own_oid_and_its_base_types_name_and_modifier(self) -> None:
        facts = RelationFacts(types={16500: ColumnType(NUMERIC, "numeric", numeric_typmod(8, 2))})
        (column,) = schema_of(Column("price", 16500), facts=facts)["columns"]
        schema = (column["type_oid"], column["type_name"], column["type_modifier"])
        assert schema == (16500, "numeric", numeric_typmod(8, 2))

    def test_dropped_columns_are_absent_and_hidden_ones_are_strings(self) -> None:
        selection = Selection(drop=(r".*\.name",), mask=(r".*\.age",), hash=(r".*\.id",), hash_key=b"k")
        schema = schema_of(ID, NAME, AGE, options=replace(OPTIONS, selection=selection))
        assert {column["name"]: column["encoding"] for column in schema["columns"]} == {
            "id": "string",
            "age": "string",
        }

    @pytest.mark.parametrize("format", ["json", "avro"])
    def test_only_masked_and_hashed_columns_are_marked_hidden(self, format: Literal["json", "avro"]) -> None:
        selection = Selection(mask=(r".*\.age",), hash=(r".*\.id",), hash_key=b"k")
        schema = schema_of(ID, NAME, AGE, options=replace(OPTIONS, format=format, selection=selection))
        assert {column["name"]: column.get("hidden") for column in schema["columns"]} == {
            "id": True,
            "name": None,
            "age": True,
        }

    def test_names_that_are_not_utf8_are_valid_json(self) -> None:
        column = Column(b"caf\xe9".decode("utf-8", "surrogateescape"))
        assert names(schema_of(column)) == ["caf\udce9"]


class TestWhen:
    def test_a_table_is_announced_before_its_first_row_and_once(self) -> None:
        people, row = relation(ID), build.insert(OID, ["1"])
        came = announced(encoder_of(), transaction(people, row, row))
        assert [it if isinstance(it, int) else it.key for it in came] == [{"topic": "app.public.people"}, 2]

    def test_a_table_without_rows_is_not_announced(self) -> None:
        """With publish_via_partition_root partitions are described too, but their rows come as the root's."""
        assert schemas(encoder_of(), transaction(relation(ID))) == []

    def test_the_same_relation_again_is_not_announced(self) -> None:
        encoder = encoder_of()
        row = build.insert(OID, ["1"])
        assert len(schemas(encoder, transaction(relation(ID), row))) == 1
        assert schemas(encoder, transaction(relation(ID), row, commit_lsn=0x2000)) == []

    def test_a_change_is_announced_at_its_place(self) -> None:
        first = [relation(ID, NAME), build.insert(OID, ["1", "Ada"])]
        then = [relation(ID, NAME, AGE), build.insert(OID, ["2", "Bob", "7"])]
        old, rows, new, more = announced(encoder_of(), transaction(*first, *then))
        assert isinstance(old, Written)
        assert isinstance(new, Written)
        assert (rows, more) == (1, 1)
        assert (names(old.value), old.value["seq"]) == (["id", "name"], 0)
        assert (names(new.value), new.value["seq"]) == (["id", "name", "age"], 1)
        assert old.value["lsn"] == new.value["lsn"] == 0x1800

    @pytest.mark.parametrize(
        "changed",
        [
            relation(ID, Column("full_name")),
            relation(ID, Column("name", INT4)),
            relation(ID, Column("name", TEXT, key=True)),
            relation(ID, Column("name", TEXT, typmod=24)),
            relation(NAME, ID),
            relation(ID),
            relation(ID, NAME, identity="i"),
            relation(ID, NAME, name="persons"),
        ],
        ids=["renamed", "retyped", "key", "modifier", "order", "dropped", "identity", "table renamed"],
    )
    def test_every_kind_of_change_is_announced(self, changed: bytes) -> None:
        encoder = encoder_of()
        before, after = schemas(encoder, transaction(relation(ID, NAME), ROWS, changed, ROWS))
        assert before != after

    def test_a_shape_that_comes_back_is_announced_again(self) -> None:
        encoder = encoder_of()
        came = [
            schema
            for shape in (relation(ID), relation(ID, NAME), relation(ID))
            for schema in schemas(encoder, transaction(shape, ROWS))
        ]
        assert [names(it) for it in came] == [
            ["id"],
            ["id", "name"],
            ["id"],
        ]

    def test_a_table_that_gets_its_name_back_is_announced_again(self) -> None:
        """Another table had the name meanwhile, and was announced last."""
        other = build.relation(OID + 1, "public", "people", "d", [ID])
        shapes = [(relation(ID, NAME), OID), (other, OID + 1), (relation(ID, NAME), OID)]
        encoder = encoder_of()
        came = [
            schema
            for shape, oid in shapes
            for schema in schemas(encoder, transaction(shape, build.truncate([oid])))
        ]
        assert [names(it) for it in came] == [["id", "name"], ["id"], ["id", "name"]]

    def test_two_tables_whose_names_with_their_dot_are_one_are_announced_once_each(self) -> None:
        described = [
            build.relation(OID, "a.b", "c", "d", [ID]),
            build.relation(OID + 1, "a", "b.c", "d", [ID]),
        ]
        rows = [build.insert(oid, ["1"]) for oid in (OID, OID + 1)]
        encoder = encoder_of()
        came = schemas(encoder, transaction(*described, *rows, *rows))
        assert [(it["schema"], it["table"]) for it in came] == [("a.b", "c"), ("a", "b.c")]
        assert schemas(encoder, transaction(*rows, *rows, commit_lsn=0x2000)) == []

    def test_under_full_a_new_primary_key_is_announced(self) -> None:
        encoder = encoder_of()
        people = relation(ID, NAME, identity="f")
        schemas(encoder, transaction(people, ROWS), RelationFacts())
        (schema,) = schemas(encoder, transaction(people, ROWS, commit_lsn=0x2000), RelationFacts(("id",)))
        assert [column["key"] for column in schema["columns"]] == [True, False]

    def test_an_excluded_table_is_never_announced(self) -> None:
        options = replace(OPTIONS, selection=Selection(exclude=(r"public\.people",)))
        events = transaction(relation(ID), build.insert(OID, ["1"]))
        assert announced(encoder_of(options), events) == []

    def test_a_new_session_announces_again(self) -> None:
        events = transaction(relation(ID), build.insert(OID, ["1"]))
        assert schemas(encoder_of(), events) == schemas(encoder_of(), events) != []


class TestPrepared:
    """A prepared transaction brings the relations of its own time."""

    OLD: Final = relation(ID)
    NEW: Final = relation(ID, NAME)

    def test_the_older_shape_is_announced_and_then_the_newer_one_again(self) -> None:
        encoder = encoder_of()
        assert [names(it) for it in schemas(encoder, transaction(self.NEW, ROWS))] == [["id", "name"]]
        prepared = transaction(self.OLD, build.insert(OID, ["1"]), commit_lsn=0x2000, scoped=True)
        assert [names(it) for it in schemas(encoder, prepared)] == [["id"]]
        later = transaction(build.insert(OID, ["2", "Bob"]), commit_lsn=0x3000)
        (schema,) = schemas(encoder, later)
        assert (names(schema), schema["lsn"]) == (["id", "name"], 0x3000)

    def test_the_same_shape_is_not_announced(self) -> None:
        encoder = encoder_of()
        schemas(encoder, transaction(self.NEW, ROWS))
        prepared = transaction(self.NEW, build.insert(OID, ["1", "Ada"]), commit_lsn=0x2000, scoped=True)
        assert schemas(encoder, prepared) == []
        assert schemas(encoder, transaction(build.insert(OID, ["2", "Bob"]), commit_lsn=0x3000)) == []

    def test_a_relation_sent_with_a_prepare_is_announced_when_a_row_needs_it(self) -> None:
        """If the prepared transaction is rolled back, its relation is never announced."""
        encoder = encoder_of()
        schemas(encoder, transaction(self.OLD, build.insert(OID, ["1"])))
        assert schemas(encoder, [build.xlog_data(self.NEW)]) == []
        assert schemas(encoder, transaction(build.message("note", b"", lsn=0x1000), commit_lsn=0x2000)) == []
        later = transaction(
            build.insert(OID, ["2", "Bob"]), build.insert(OID, ["3", "Cy"]), commit_lsn=0x3000
        )
        schema, rows = announced(encoder, later)
        assert isinstance(schema, Written)
        assert (names(schema.value), schema.value["lsn"], rows) == (["id", "name"], 0x3000, 2)

    def test_a_truncate_needs_a_relation_sent_with_a_prepare_too(self) -> None:
        encoder = encoder_of()
        events = [build.xlog_data(self.NEW), *transaction(build.truncate([OID]))]
        schema, rows = announced(encoder, events)
        assert isinstance(schema, Written)
        assert (names(schema.value), rows) == (["id", "name"], 1)

    def test_a_newer_relation_supersedes_one_sent_with_a_prepare(self) -> None:
        encoder = encoder_of()
        schemas(encoder, [build.xlog_data(self.OLD)])
        (schema,) = schemas(encoder, transaction(self.NEW, build.insert(OID, ["1", "Ada"])))
        assert names(schema) == ["id", "name"]

    def test_the_prepared_transaction_uses_its_own_relation(self) -> None:
        encoder = encoder_of()
        schemas(encoder, [build.xlog_data(self.NEW)])
        prepared = transaction(self.OLD, build.insert(OID, ["1"]), commit_lsn=0x2000, scoped=True)
        assert [names(it) for it in schemas(encoder, prepared)] == [["id"]]
