"""Inserts, updates and deletes: key, before, after and tombstone, for every replica identity."""

from dataclasses import replace
from typing import Any, Final

import pytest

from pgrelay.encode.plan import RelationFacts
from pgrelay.encode.records import BY_KEY
from pgrelay.errors import RecordError, SetupError
from tests.encode.encoding import OPTIONS, Written, records
from tests.wire import build
from tests.wire.build import INT4, UNCHANGED, Column

OID: Final = 16384
COLUMNS: Final = [Column("id", INT4, key=True), Column("item"), Column("big")]
DEFAULT: Final = build.relation(OID, "public", "orders", "d", COLUMNS)
# Under FULL the server marks every column as key; the primary key is only in the catalogue.
FULL: Final = build.relation(
    OID, "public", "orders", "f", [Column(name, oid, key=True) for name, oid, _, _ in COLUMNS]
)
WITH_KEY: Final = RelationFacts(primary_key=("id",))
WITHOUT_KEY: Final = RelationFacts()
# A unique index on two columns that aren't the first ones.
INDEX: Final = build.relation(
    OID, "public", "orders", "i", [Column("note"), Column("b", INT4, key=True), Column("a", key=True)]
)
NOTHING: Final = build.relation(OID, "public", "orders", "n", [Column("id", INT4), Column("item")])

Row = dict[str, Any]


def row(number: int | None, item: str | None, big: str | None = "B") -> Row:
    return {"id": number, "item": item, "big": big}


def rows(record: Written) -> tuple[Any, str, Row | None, Row | None]:
    """Key, op, before and after."""
    return record.key, record.value["op"], record.value["before"], record.value["after"]


# --- Insert


def test_an_insert_is_a_create_with_the_new_row() -> None:
    (record,) = records(DEFAULT, build.insert(OID, ["1", "tea", None]))
    assert record.topic == "app.public.orders"
    assert rows(record) == ({"id": 1}, "c", None, row(1, "tea", None))
    assert record.partition == BY_KEY
    assert record.headers == {}


def test_columns_and_key_columns_keep_the_tables_order() -> None:
    (record,) = records(INDEX, build.insert(OID, ["n", "1", "x"]))
    assert list(record.value["after"]) == ["note", "b", "a"]
    assert list(record.key.items()) == [("b", 1), ("a", "x")]


# --- Update


def test_an_update_without_a_key_change_has_no_before() -> None:
    (record,) = records(DEFAULT, build.update(OID, ["1", "tea", "B"]))
    assert rows(record) == ({"id": 1}, "u", None, row(1, "tea"))


def test_under_full_an_update_has_the_whole_old_row() -> None:
    update = build.update(OID, ["1", "tea", None], old=["1", None, "B"])
    (record,) = records(FULL, update, facts=WITH_KEY)
    assert rows(record) == ({"id": 1}, "u", row(1, None), row(1, "tea", None))


def test_an_update_with_the_same_old_key_is_an_update() -> None:
    """The server sends the old key if a key column is TOASTed, changed or not."""
    (record,) = records(DEFAULT, build.update(OID, ["1", "tea", "B"], key=["1", None, None]))
    assert rows(record) == ({"id": 1}, "u", {"id": 1}, row(1, "tea"))


# --- Update of the key


MOVED: Final = build.update(OID, ["2", "tea", "B"], key=["1", None, None])


def test_a_change_of_the_key_is_a_delete_and_a_create() -> None:
    deleted, tombstone, created = records(DEFAULT, MOVED)
    assert rows(deleted) == ({"id": 1}, "d", {"id": 1}, None)
    assert (tombstone.key, tombstone.value) == ({"id": 1}, None)
    assert rows(created) == ({"id": 2}, "c", None, row(2, "tea"))
    assert (deleted.value["source"]["seq"], created.value["source"]["seq"]) == (0, 1)
    assert deleted.value["source"]["lsn"] == created.value["source"]["lsn"]


def test_the_delete_and_create_of_a_key_change_carry_each_others_key() -> None:
    deleted, tombstone, created = records(DEFAULT, MOVED)
    assert deleted.headers == {"__debezium.newkey": b'{"id":2}'}
    assert tombstone.headers == deleted.headers
    assert created.headers == {"__debezium.oldkey": b'{"id":1}'}


def test_under_full_a_key_change_is_found_by_comparing_the_rows() -> None:
    update = build.update(OID, ["2", "tea", UNCHANGED], old=["1", "milk", "B"])
    deleted, tombstone, created = records(FULL, update, facts=WITH_KEY)
    assert rows(deleted) == ({"id": 1}, "d", row(1, "milk"), None)
    assert tombstone.key == {"id": 1}
    assert rows(created) == ({"id": 2}, "c", None, row(2, "tea"))


def test_a_change_of_one_key_column_is_a_key_change() -> None:
    update = build.update(OID, ["n", "1", "y"], key=[None, "1", "x"])
    deleted, _, created = records(INDEX, update)
    assert (deleted.key, created.key) == ({"b": 1, "a": "x"}, {"b": 1, "a": "y"})
    assert deleted.value["before"] == {"b": 1, "a": "x"}


def test_after_a_key_change_only_the_create_lists_unchanged_columns() -> None:
    update = build.update(OID, ["2", "tea", UNCHANGED], key=["1", None, None])
    deleted, _, created = records(DEFAULT, update)
    assert "unchanged" not in deleted.value
    assert (created.value["after"], created.value["unchanged"]) == ({"id": 2, "item": "tea"}, ["big"])


def test_a_key_may_change_and_change_back() -> None:
    back = build.update(OID, ["1", "tea", "B"], key=["2", None, None])
    keys = [record.key["id"] for record in records(DEFAULT, MOVED, back)]
    assert keys == [1, 1, 2, 2, 2, 1]


# --- Delete


def test_a_delete_has_the_old_key_and_a_tombstone() -> None:
    """The nulls in an old key's other columns mean that they were not sent."""
    deleted, tombstone = records(DEFAULT, build.delete(OID, key=["1", None, None]))
    assert rows(deleted) == ({"id": 1}, "d", {"id": 1}, None)
    assert deleted.headers == {}
    assert (tombstone.topic, tombstone.key, tombstone.value) == ("app.public.orders", {"id": 1}, None)
    assert deleted.partition == tombstone.partition == BY_KEY


@pytest.mark.parametrize("change", ["update", "delete"])
def test_an_incomplete_old_key_is_refused(change: str) -> None:
    """It comes from a partition whose replica identity isn't that of the root it is published as."""
    sent = build.delete(OID, key=[None, "tea", None])
    if change == "update":
        sent = build.update(OID, ["2", "tea", "B"], key=[None, "milk", None])
    with pytest.raises(RecordError, match="old key without its column id: a partition"):
        records(DEFAULT, sent)
    with pytest.raises(RecordError, match="old key, although the table has none: a partition"):
        records(NOTHING, build.delete(OID, key=["1", None]))


@pytest.mark.parametrize("change", ["update", "delete"])
def test_under_another_identity_what_is_called_a_whole_row_is_a_key(change: str) -> None:
    """The root of a partition has become FULL, and the server did not describe it again."""
    sent = build.delete(OID, old=["1", None, None])
    if change == "update":
        sent = build.update(OID, ["2", "tea", "B"], old=["1", None, None])
    deleted, *_ = records(DEFAULT, sent)
    assert rows(deleted) == ({"id": 1}, "d", {"id": 1}, None)


def test_a_whole_row_of_a_table_that_has_no_key_stays_whole() -> None:
    (deleted,) = records(NOTHING, build.delete(OID, old=["1", "tea"]))
    assert deleted.value["before"] == {"id": 1, "item": "tea"}


@pytest.mark.parametrize(
    "change",
    [
        build.update(OID, ["1", "tea", "B"]),
        build.update(OID, ["1", "tea", "B"], old=["1", None, None]),
        build.delete(OID, old=["1", None, None]),
    ],
)
def test_partitions_of_a_full_root_must_be_full(change: bytes) -> None:
    """Inserts pass, because they have no old row."""
    facts = replace(WITH_KEY, non_full_partition="public.low")
    inserted = build.insert(OID, ["1", "tea", "B"])
    assert len(records(FULL, inserted, facts=facts)) == 1
    with pytest.raises(SetupError, match=r"ALTER TABLE public\.low REPLICA IDENTITY FULL"):
        records(FULL, inserted, change, facts=facts)


def test_under_full_a_delete_has_the_whole_old_row_with_its_nulls() -> None:
    deleted, tombstone = records(FULL, build.delete(OID, old=["1", None, "B"]), facts=WITH_KEY)
    assert rows(deleted) == ({"id": 1}, "d", row(1, None), None)
    assert tombstone.key == {"id": 1}


def test_a_tombstone_takes_no_seq() -> None:
    deletes = [build.delete(OID, key=[str(number), None, None]) for number in (1, 2)]
    sent = [record.value for record in records(DEFAULT, *deletes) if record.value is not None]
    assert [value["source"]["seq"] for value in sent] == [0, 1]


def test_with_tombstones_off_there_are_none() -> None:
    options = replace(OPTIONS, tombstones=False)
    (deleted,) = records(DEFAULT, build.delete(OID, key=["1", None, None]), options=options)
    assert deleted.value["op"] == "d"
    assert [record.value["op"] for record in records(DEFAULT, MOVED, options=options)] == ["d", "c"]


# --- Tables and records without a key


@pytest.mark.parametrize(
    ("relation", "facts"), [(NOTHING, WITHOUT_KEY), (FULL, WITHOUT_KEY)], ids=["nothing", "full"]
)
def test_without_a_key_all_records_go_to_one_partition(relation: bytes, facts: RelationFacts) -> None:
    """This keeps their order."""
    values = ["1", "tea"] if relation is NOTHING else ["1", "tea", "B"]
    (record,) = records(relation, build.insert(OID, values), facts=facts)
    assert (record.key, record.partition) == (None, 0)


def test_under_full_without_a_primary_key_there_are_no_keys_and_tombstones() -> None:
    """Without a key there is no key change, and nothing that a tombstone could name."""
    update = build.update(OID, ["2", "tea", "B"], old=["1", "milk", "B"])
    delete = build.delete(OID, old=["2", "tea", "B"])
    updated, deleted = records(FULL, update, delete, facts=WITHOUT_KEY)
    assert rows(updated) == (None, "u", row(1, "milk"), row(2, "tea"))
    assert rows(deleted) == (None, "d", row(2, "tea"), None)
    assert (updated.partition, deleted.partition) == (0, 0)


def test_with_keys_off_records_have_no_keys_and_tombstones() -> None:
    """Then a key change is an ordinary update, and a delete has no tombstone."""
    options = replace(OPTIONS, key=False)
    delete = build.delete(OID, key=["2", None, None])
    updated, deleted = records(DEFAULT, MOVED, delete, options=options)
    assert rows(updated) == (None, "u", {"id": 1}, row(2, "tea"))
    assert rows(deleted) == (None, "d", {"id": 2}, None)
    assert (updated.partition, deleted.partition) == (0, 0)
    assert updated.headers == {}


def test_an_insert_into_a_table_without_columns() -> None:
    relation = build.relation(OID, "public", "orders", "n", [])
    (record,) = records(relation, build.insert(OID, []))
    assert rows(record) == (None, "c", None, {})


def test_a_column_of_a_key_index_may_be_null() -> None:
    (record,) = records(INDEX, build.insert(OID, ["n", None, "x"]))
    assert record.key == {"b": None, "a": "x"}


# --- Unchanged TOAST

HALF: Final = build.update(OID, ["1", UNCHANGED, UNCHANGED])


def test_unchanged_columns_are_absent_and_listed() -> None:
    """This differs from null."""
    (record,) = records(DEFAULT, HALF)
    assert record.value["after"] == {"id": 1}
    assert record.value["unchanged"] == ["item", "big"]


def test_a_placeholder_replaces_unchanged_columns() -> None:
    (record,) = records(DEFAULT, HALF, options=replace(OPTIONS, placeholder=True))
    marker = "__debezium_unavailable_value"
    assert record.value["after"] == row(1, marker, marker)
    assert "unchanged" not in record.value


@pytest.mark.parametrize("placeholder", [False, True])
def test_the_old_row_fills_in_unchanged_columns(placeholder: bool) -> None:
    update = build.update(OID, ["1", UNCHANGED, UNCHANGED], old=["1", 'm"ilk', "B"])
    (record,) = records(FULL, update, facts=WITH_KEY, options=replace(OPTIONS, placeholder=placeholder))
    assert record.value["after"] == row(1, 'm"ilk')
    assert "unchanged" not in record.value


def test_an_old_key_fills_in_only_key_columns() -> None:
    """The nulls in its other columns mean absent."""
    relation = build.relation(OID, "public", "orders", "d", [Column("id", key=True), Column("big")])
    update = build.update(OID, [UNCHANGED, UNCHANGED], key=["long", None])
    (record,) = records(relation, update)
    assert rows(record) == ({"id": "long"}, "u", {"id": "long"}, {"id": "long"})
    assert record.value["unchanged"] == ["big"]


def test_a_key_column_that_was_not_sent_is_an_error() -> None:
    relation = build.relation(OID, "public", "orders", "d", [Column("id", key=True), Column("big")])
    with pytest.raises(RecordError) as caught:
        records(relation, build.update(OID, [UNCHANGED, "B"]))
    assert str(caught.value) == (
        "public.orders.id: a key column came without its value (unchanged TOAST); use a key that is not "
        "TOASTed, or REPLICA IDENTITY FULL (LSN 0/1010)"
    )


# --- Headers


def test_every_record_of_a_row_has_headers() -> None:
    options = replace(OPTIONS, headers=True)
    found = records(DEFAULT, build.insert(OID, ["1", "tea", None]), MOVED, options=options)
    place = {"commit_lsn": b"6144", "txid": b"754"}
    assert [record.headers for record in found] == [
        {"op": b"c", "seq": b"0", **place},
        {"op": b"d", "seq": b"1", **place, "__debezium.newkey": b'{"id":2}'},
        {"op": b"d", "seq": b"1", **place, "__debezium.newkey": b'{"id":2}'},
        {"op": b"c", "seq": b"2", **place, "__debezium.oldkey": b'{"id":1}'},
    ]
    assert list(found[0].headers) == ["op", "commit_lsn", "seq", "txid"]
