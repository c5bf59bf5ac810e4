"""The tables: what Postgres refuses once they are published, and what arrives differently than meant."""

from dataclasses import replace

from pgrelay.check.table_queries import Column
from pgrelay.check.tables import (
    conflicting_columns,
    left_out_tables,
    relayed_tables,
    unreadable_binary,
    unsent_partition_truncates,
)
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.selection import Selection
from pgrelay.encode.types import ColumnType
from tests.check.tables import published, table


def test_publications_with_different_column_lists_are_an_error() -> None:
    (finding,) = conflicting_columns(published(table(), columns={1: [["id"], ["id", "note"]]}))
    assert finding.level == "error"
    assert "public.orders" in finding.what
    assert conflicting_columns(published(table(), columns={1: [["id", "note"]]})) == []


def test_types_with_an_unknown_binary_form_are_an_error() -> None:
    columns = [
        Column("public", "t", "public.t", "id", 23, -1, "integer"),
        Column("public", "t", "public.t", "words", 3615, -1, "tsquery"),
        Column("public", "t", "public.t", "mood", 70001, -1, "mood"),
        Column("public", "t", "public.t", "pair", 70002, -1, "pair"),
        Column("public", "t", "public.t", "gone", 70003, -1, "gone"),
    ]
    types = {70001: ColumnType(70001, "mood", typtype="e"), 70002: ColumnType(70002, "pair", typtype="c")}
    (finding,) = unreadable_binary(columns, types, Encodings())
    assert finding.level == "error"
    assert finding.what.endswith("public.t.words (tsquery), public.t.pair (pair), public.t.gone (gone)")
    assert finding.cure == "set source.binary: false"
    assert unreadable_binary(columns[:1], {}, Encodings()) == []


def test_a_binary_hstore_is_an_error_if_the_server_converts_text() -> None:
    columns = [Column("public", "t", "public.t", "tags", 70001, -1, "hstore")]
    types = {70001: ColumnType(70001, "hstore")}
    assert unreadable_binary(columns, types, Encodings()) == []
    (finding,) = unreadable_binary(columns, types, Encodings(server_transcodes=True))
    assert finding.what.endswith("public.t.tags (hstore)")


def test_tables_that_the_relay_leaves_out_are_counted() -> None:
    every = published(table("a", 1), table("b", 2))
    assert left_out_tables(every, every) == []
    first_few = relayed_tables(every, Selection(exclude=(r"public\.b",)))
    assert [each.name for each in first_few.tables] == ["a"]
    assert [each.what for each in left_out_tables(every, first_few)] == [
        "records.tables leaves out 1 of 2 published tables"
    ]
    (finding,) = left_out_tables(every, relayed_tables(every, Selection(include=("a",))))
    assert (finding.level, finding.why) == ("warning", "there is nothing to relay")


def test_truncates_of_a_table_published_as_its_root_are_a_warning() -> None:
    root, part = table("days", 1), table("old", 2)
    every = published(root, table("plain", 3), leaves=(part,), roots={2: 1})
    (finding,) = unsent_partition_truncates(every)
    assert finding.level == "warning"
    assert finding.what == "1 partitioned table published as one, with truncates: public.days"
    assert unsent_partition_truncates(replace(every, truncates=False)) == []
    assert unsent_partition_truncates(relayed_tables(every, Selection(exclude=(r"public\.days",)))) == []
