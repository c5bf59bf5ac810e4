"""The tables: what Postgres refuses once they are published, and what does not arrive as meant."""

from pgrelay.check.table_queries import Column
from pgrelay.check.tables import (
    conflicting,
    hidden_keys,
    keyless,
    selected,
    uncovered,
    unidentified,
    unreadable,
    unselected,
)
from pgrelay.encode.selection import Selection
from pgrelay.encode.types import ColumnType
from tests.check.tables import published, table


def test_nothing_is_told_of_good_tables() -> None:
    good = published(table(), columns={1: [["id", "note"]]}, listed=frozenset({1}))
    assert unidentified(good) == uncovered(good) == conflicting(good) == keyless(good, 3) == []


def test_tables_without_identity_are_named_with_their_statement() -> None:
    (finding,) = unidentified(published(*(table(f"t{n}", n, identity="n") for n in range(7))))
    assert finding.level == "warning"
    assert finding.what.endswith("public.t0, public.t1, public.t2, public.t3, public.t4, and 2 more")
    assert "ALTER TABLE public.t0 REPLICA IDENTITY FULL; ALTER TABLE public.t1" in finding.cure


def test_inserts_alone_need_no_identity() -> None:
    assert unidentified(published(table(identity="n"), changed=frozenset())) == []


def test_a_partition_is_what_needs_the_identity() -> None:
    root, part = table("root", 1), table("part", 2, identity="n")
    (finding,) = unidentified(published(root, stored=(part,), changed=frozenset({1, 2})))
    assert "public.part" in finding.what
    assert "public.root" not in finding.what


def test_a_column_list_must_hold_the_identity() -> None:
    columns = {1: [["id", "note"]], 2: [["note"]], 3: [["id"]]}
    tables = (table("a", 1), table("b", 2), table("c", 3, identity="f"))
    (finding,) = uncovered(published(*tables, columns=columns, listed=frozenset({1, 2, 3})))
    assert finding.level == "warning"
    assert finding.what.endswith(": public.b, public.c")
    assert uncovered(published(*tables, columns=columns)) == []


def test_publications_must_agree_on_columns() -> None:
    (finding,) = conflicting(published(table(), columns={1: [["id"], ["id", "note"]]}))
    assert finding.level == "error"
    assert "public.orders" in finding.what


def test_tables_without_key() -> None:
    full = published(table(identity="f", primary_key=()))
    assert [each.level for each in keyless(full, 1)] == ["ok"]
    (finding,) = keyless(full, 3)
    assert finding.level == "warning"
    assert "partition 0 of 3" in finding.why


def test_a_table_without_identity_is_told_of_once() -> None:
    changed = published(table(identity="n"))
    assert keyless(changed, 3) == []
    inserted = published(table(identity="n"), changed=frozenset())
    assert [each.level for each in keyless(inserted, 3)] == ["warning"]


def test_types_whose_binary_form_is_unknown() -> None:
    columns = [
        Column("public", "t", "public.t", "id", 23, -1, "integer"),
        Column("public", "t", "public.t", "words", 3615, -1, "tsquery"),
        Column("public", "t", "public.t", "mood", 70001, -1, "mood"),
        Column("public", "t", "public.t", "pair", 70002, -1, "pair"),
        Column("public", "t", "public.t", "gone", 70003, -1, "gone"),
    ]
    types = {70001: ColumnType(70001, "mood", typtype="e"), 70002: ColumnType(70002, "pair", typtype="c")}
    (finding,) = unreadable(columns, types)
    assert finding.level == "error"
    assert finding.what.endswith("public.t.words (tsquery), public.t.pair (pair), public.t.gone (gone)")
    assert finding.cure == "set source.binary: false"
    assert unreadable(columns[:1], {}) == []


def test_tables_that_the_relay_leaves_out() -> None:
    every = published(table("a", 1), table("b", 2))
    assert unselected(every, every) == []
    some = selected(every, Selection(exclude=(r"public\.b",)))
    assert [each.name for each in some.tables] == ["a"]
    assert [each.what for each in unselected(every, some)] == [
        "records.tables leaves out 1 of 2 published tables"
    ]
    (finding,) = unselected(every, selected(every, Selection(include=("a",))))
    assert (finding.level, finding.why) == ("warning", "there is nothing to relay")


def test_columns_of_a_key_cannot_be_hidden() -> None:
    (finding,) = hidden_keys(published(table()), Selection(mask=(r".*\.id",)))
    assert finding.level == "error"
    assert "public.orders.id belongs to the key" in finding.what
    assert hidden_keys(published(table()), Selection(hash=(r".*\.id",), mask=(r".*\.note",))) == []
