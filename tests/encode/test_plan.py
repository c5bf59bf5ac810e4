"""Plans: what is known about a relation before its first row."""

from dataclasses import replace
from typing import Final

import pytest

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, RelationFacts, column_type
from pgrelay.encode.selection import Selection
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.encode.values.json_value import TEXT
from pgrelay.errors import SetupError
from pgrelay.wire.pgoutput import Relation, RelationColumn
from tests.encode.encoding import NO_FACTS, OPTIONS

INT4: Final = 23
NUMERIC: Final = 1700
MOOD: Final = 16400


def column(name: str, key: bool = False, type_oid: int = INT4, typmod: int = -1) -> RelationColumn:
    return RelationColumn(key, name, type_oid, typmod)


def plan(
    *columns: RelationColumn,
    identity: str = "d",
    facts: RelationFacts = NO_FACTS,
    options: RecordOptions = OPTIONS,
) -> Plan:
    relation = Relation(None, 16384, "public", "orders", identity, columns)
    return Plan(relation, facts, "app.public.orders", options)


def keys(made: Plan) -> list[str]:
    return [it.name for it in made.columns if it.key]


# --- Keys


@pytest.mark.parametrize("identity", ["d", "i"])
def test_the_key_is_the_replica_identitys(identity: str) -> None:
    made = plan(column("a"), column("b", key=True), column("c", key=True), identity=identity)
    assert (keys(made), made.keyed) == (["b", "c"], True)


def test_under_full_the_key_is_the_primary_key() -> None:
    columns = [column("a", key=True), column("b", key=True)]
    made = plan(*columns, identity="f", facts=RelationFacts(primary_key=("b",)))
    assert (keys(made), made.keyed) == (["b"], True)


def test_under_full_without_a_primary_key_there_is_no_key() -> None:
    made = plan(column("a", key=True), identity="f")
    assert (keys(made), made.keyed) == ([], False)


def test_a_primary_key_that_is_not_among_the_columns_is_not_used() -> None:
    """A column list may omit it, or it was renamed between the message and the catalogue query."""
    made = plan(column("a", key=True), identity="f", facts=RelationFacts(primary_key=("id",)))
    assert not made.keyed


@pytest.mark.parametrize("missing", ["item_id", "total"], ids=["renamed", "generated"])
def test_a_partly_present_primary_key_is_not_used(missing: str) -> None:
    """Several rows may share a part of a key, and one tombstone would delete all their records."""
    columns = [column("tenant", key=True), column("id", key=True)]
    made = plan(*columns, identity="f", facts=RelationFacts(primary_key=("tenant", missing)))
    assert (keys(made), made.keyed) == ([], False)


def test_the_primary_key_is_used_only_under_full() -> None:
    made = plan(column("a"), column("b", key=True), facts=RelationFacts(primary_key=("a",)))
    assert keys(made) == ["b"]


def test_without_a_replica_identity_there_is_no_key() -> None:
    assert not plan(column("a"), identity="n").keyed


def test_with_keys_off_there_is_no_key() -> None:
    made = plan(column("a", key=True), options=replace(OPTIONS, key=False))
    assert (keys(made), made.keyed) == (["a"], False)


# --- Types


def test_a_built_in_type_has_its_modifier() -> None:
    (price,) = plan(column("price", type_oid=NUMERIC, typmod=393222)).columns
    assert price.type == builtin_type(NUMERIC, 393222)


def test_any_other_type_comes_from_the_catalogue() -> None:
    mood = ColumnType(MOOD, "mood", typtype="e")
    assert column_type(column("mood", type_oid=MOOD), RelationFacts(types={MOOD: mood})) == mood


def test_an_extensions_type_has_its_columns_modifier() -> None:
    """For example PostGIS's geometry(Point,4326), or vector(3)."""
    vector = ColumnType(MOOD, "vector")
    vectors = ColumnType(MOOD + 1, "_vector", element=vector)
    facts = RelationFacts(types={MOOD: vector, MOOD + 1: vectors})
    one, many, any_size = (
        column_type(column("v", type_oid=oid, typmod=typmod), facts)
        for oid, typmod in [(MOOD, 3), (MOOD + 1, 3), (MOOD, -1)]
    )
    assert (one.typmod, many.typmod, many.element_type().typmod, any_size.typmod) == (3, 3, 3, -1)


def test_an_unknown_type_is_taken_as_text() -> None:
    """It was dropped since, together with the column."""
    (gone,) = plan(column("gone", type_oid=MOOD, typmod=7)).columns
    assert gone.type == ColumnType(MOOD, "unknown", 7, has_binary_form=False)
    assert (gone.text.kind, gone.encoding, gone.binary) == (TEXT, "string", None)


def test_a_domain_is_encoded_as_its_base_type() -> None:
    price = ColumnType(NUMERIC, "numeric", 393222)
    facts = RelationFacts(types={MOOD: price})
    options = replace(OPTIONS, encodings=Encodings(numeric="precise"))
    (made,) = plan(column("price", type_oid=MOOD), facts=facts, options=options).columns
    (base,) = plan(column("price", type_oid=NUMERIC, typmod=393222), options=options).columns
    assert (made.type, made.encoding) == (base.type, base.encoding)
    assert made.type_oid == MOOD


def test_the_settings_decide_the_encoding() -> None:
    number = column("n", type_oid=NUMERIC)
    (as_string,) = plan(number).columns
    (as_number,) = plan(number, options=replace(OPTIONS, encodings=Encodings(numeric="double"))).columns
    assert (as_string.encoding, as_number.encoding) == ("string", "number")


# --- Names


def test_a_column_has_its_json_member_names_ready() -> None:
    (made,) = plan(column('a"b')).columns
    assert made.member == b',"a\\"b":'
    assert made.member_null == b',"a\\"b":null'
    assert made.table == "public.orders"


# --- Hidden columns


def test_a_dropped_or_masked_key_column_is_refused() -> None:
    selection = Selection(drop=(r".*\.a",))
    with pytest.raises(SetupError, match=r"records\.columns\.drop: public\.orders\.a belongs to the key"):
        plan(column("a", key=True), options=replace(OPTIONS, selection=selection))


def test_under_full_only_primary_key_columns_may_not_be_hidden() -> None:
    options = replace(OPTIONS, selection=Selection(mask=(r".*\.a",)))
    columns = [column("a", key=True), column("b", key=True)]
    made = plan(*columns, identity="f", facts=RelationFacts(primary_key=("b",)), options=options)
    assert [(it.name, it.suppressed, it.dropped) for it in made.columns] == [
        ("a", True, False),
        ("b", False, False),
    ]


# --- Counts


def test_counts_are_taken_once() -> None:
    made = plan(column("a"))
    assert made.take_counts() == []
    made.creates, made.truncates = 2, 1
    assert made.take_counts() == [("public.orders", "c", 2), ("public.orders", "t", 1)]
    assert made.take_counts() == []
