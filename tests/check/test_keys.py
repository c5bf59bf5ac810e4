"""What tells rows apart, and what records would lack it."""

from pgrelay.check.keys import (
    deferrable,
    hidden_keys,
    keyless,
    mismatched,
    uncovered,
    ungenerated,
    unidentified,
)
from pgrelay.encode.selection import Selection
from tests.check.tables import published, table


def test_nothing_is_told_of_good_tables() -> None:
    good = published(table(), columns={1: [["id", "note"]]}, listed=frozenset({1}))
    assert (
        unidentified(good)
        == uncovered(good)
        == mismatched(good)
        == deferrable(good)
        == keyless(good, 3)
        == []
    )


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


def test_columns_of_a_key_cannot_be_hidden() -> None:
    (finding,) = hidden_keys(published(table()), Selection(mask=(r".*\.id",)))
    assert finding.level == "error"
    assert "public.orders.id belongs to the key" in finding.what
    assert hidden_keys(published(table()), Selection(hash=(r".*\.id",), mask=(r".*\.note",))) == []


def test_a_partition_has_the_identity_of_its_root() -> None:
    root = table("root", 1, identity="i", identity_index=("id", "code"))
    parts = table("same", 2, identity="i", identity_index=("code", "id")), table("other", 3)
    full = table("full", 4, identity="f")
    every = published(root, stored=(*parts, full), roots={2: 1, 3: 1, 4: 1})
    (finding,) = mismatched(every)
    assert finding.what.endswith("than the root: public.other")
    assert mismatched(published(root, stored=parts, roots={2: 1, 3: 1}, changed=frozenset())) == []


def test_a_root_that_is_full_needs_partitions_that_are() -> None:
    root, part = table("root", 1, identity="f"), table("part", 2)
    (finding,) = mismatched(published(root, stored=(part,), roots={2: 1}))
    assert "public.part" in finding.what


def test_a_generated_column_that_is_not_sent_is_no_part_of_a_key() -> None:
    tables = table("a", 1, primary_key=("id", "sum")), table("b", 2)
    (finding,) = ungenerated(published(*tables), {1: ["sum"], 2: ["sum"]})
    assert finding.what.endswith("in the key: public.a")


def test_keys_that_rows_may_exchange() -> None:
    swapping = table("a", 1, identity="f", deferrable=True)
    (finding,) = deferrable(published(swapping, table("b", 2, identity="f")))
    assert finding.what.endswith(": public.a")
    assert deferrable(published(swapping, changed=frozenset())) == []


def test_a_column_list_for_inserts_must_hold_the_key() -> None:
    part = published(table(), columns={1: [["note"]]}, listed=frozenset({1}), changed=frozenset())
    (finding,) = uncovered(part)
    assert "a part of the key" in finding.why
