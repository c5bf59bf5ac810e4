"""What identifies rows, and which tables' records would lack it."""

from typing import Any

import pytest

from pgrelay.check.keys import (
    deferrable_keys,
    hidden_keys,
    identity_not_published,
    keyless,
    mismatched_partitions,
    roots_without_identity,
    unsent_generated_keys,
    without_identity,
)
from pgrelay.encode.selection import Selection
from tests.check.tables import published, table


def test_good_tables_have_no_findings() -> None:
    good = published(table(), columns={1: [["id", "note"]]}, with_column_list=frozenset({1}))
    assert (
        without_identity(good)
        == identity_not_published(good)
        == mismatched_partitions(good)
        == deferrable_keys(good)
        == keyless(good, 3)
        == []
    )


def test_tables_without_identity_are_named_with_the_alter_statement() -> None:
    (finding,) = without_identity(published(*(table(f"t{n}", n, primary_key=()) for n in range(7))))
    assert finding.level == "warning"
    assert finding.what.endswith("public.t0, public.t1, public.t2, public.t3, public.t4, and 2 more")
    assert "ALTER TABLE public.t0 REPLICA IDENTITY FULL; ALTER TABLE public.t1" in finding.cure


def test_a_table_with_inserts_only_needs_no_identity() -> None:
    assert without_identity(published(table(identity="n"), updates_published=frozenset())) == []


def test_the_partition_needs_the_identity_not_its_root() -> None:
    root, part = table("root", 1), table("part", 2, identity="n")
    (finding,) = without_identity(published(root, leaves=(part,), updates_published=frozenset({1, 2})))
    assert "public.part" in finding.what
    assert "public.root" not in finding.what


def test_a_column_list_without_the_identity_is_a_warning() -> None:
    columns = {1: [["id", "note"]], 2: [["note"]], 3: [["id"]]}
    tables = (table("a", 1), table("b", 2), table("c", 3, identity="f"))
    (finding,) = identity_not_published(
        published(*tables, columns=columns, with_column_list=frozenset({1, 2, 3}))
    )
    assert finding.level == "warning"
    assert finding.what.endswith(": public.b, public.c")
    assert identity_not_published(published(*tables, columns=columns)) == []


def test_tables_without_a_key_are_a_warning_with_several_partitions() -> None:
    full = published(table(identity="f", primary_key=()))
    assert [each.level for each in keyless(full, 1)] == ["ok"]
    (finding,) = keyless(full, 3)
    assert finding.level == "warning"
    assert "partition 0 of 3" in finding.why


def test_a_table_without_identity_is_reported_once() -> None:
    changed = published(table(identity="n"))
    assert keyless(changed, 3) == []
    inserted = published(table(identity="n"), updates_published=frozenset())
    assert [each.level for each in keyless(inserted, 3)] == ["warning"]


def test_a_dropped_or_masked_key_column_is_an_error() -> None:
    (finding,) = hidden_keys(published(table()), Selection(mask=(r".*\.id",)))
    assert finding.level == "error"
    assert "public.orders.id belongs to the key" in finding.what
    assert hidden_keys(published(table()), Selection(hash=(r".*\.id",), mask=(r".*\.note",))) == []


def test_of_many_dropped_key_columns_the_first_are_named_and_the_others_counted() -> None:
    found = hidden_keys(published(*(table(f"t{n}", n) for n in range(7))), Selection(mask=(r".*\.id",)))
    assert [each.level for each in found] == ["error"] * 6
    assert "public.t4.id belongs to the key" in found[4].what
    assert found[5].what == "2 more key columns would be dropped or masked"


def test_a_partition_with_another_identity_than_its_root_is_reported() -> None:
    root = table("root", 1, identity="i", identity_index=("id", "code"))
    parts = table("same", 2, identity="i", identity_index=("code", "id")), table("other", 3)
    full = table("full", 4, identity="f")
    every = published(root, leaves=(*parts, full), roots={2: 1, 3: 1, 4: 1})
    (finding,) = mismatched_partitions(every)
    assert finding.what.endswith("than the root: public.other")
    assert (
        mismatched_partitions(
            published(root, leaves=parts, roots={2: 1, 3: 1}, updates_published=frozenset())
        )
        == []
    )


def test_a_full_root_with_a_partition_that_is_not_full_is_reported() -> None:
    root, part = table("root", 1, identity="f"), table("part", 2)
    (finding,) = mismatched_partitions(published(root, leaves=(part,), roots={2: 1}))
    assert "public.part" in finding.what


@pytest.mark.parametrize("of_part", [{"identity": "f"}, {"primary_key": ("id",)}], ids=["full", "key"])
def test_a_root_without_identity_needs_one_if_a_partition_has_one(of_part: dict[str, Any]) -> None:
    """As Postgres advises for the partition, when it refuses to update its rows."""
    root, part = table("root", 1, primary_key=()), table("part", 2, **of_part)
    every = published(root, leaves=(part,), roots={2: 1})
    (finding,) = roots_without_identity(every)
    assert finding.what == "1 partitioned table without replica identity: public.root"
    assert finding.cure == "ALTER TABLE public.root REPLICA IDENTITY FULL, and the same for the partitions"
    assert mismatched_partitions(every) == without_identity(every) == []
    for other in (table("root", 1), table("root", 1, identity="f")):
        assert roots_without_identity(published(other, leaves=(part,), roots={2: 1})) == []
    bare = table("part", 2, primary_key=())
    assert roots_without_identity(published(root, leaves=(bare,), roots={2: 1})) == []


def test_a_key_with_an_unsent_generated_column_is_reported() -> None:
    tables = table("a", 1, primary_key=("id", "sum")), table("b", 2)
    (finding,) = unsent_generated_keys(published(*tables), {1: ["sum"], 2: ["sum"]})
    assert finding.what.endswith("in the key: public.a")


def test_deferrable_keys_are_reported() -> None:
    swapping = table("a", 1, identity="f", deferrable=True)
    (finding,) = deferrable_keys(published(swapping, table("b", 2, identity="f")))
    assert finding.what.endswith(": public.a")
    assert deferrable_keys(published(swapping, updates_published=frozenset())) == []


def test_a_column_list_for_inserts_without_the_key_is_reported() -> None:
    part = published(
        table(), columns={1: [["note"]]}, with_column_list=frozenset({1}), updates_published=frozenset()
    )
    (finding,) = identity_not_published(part)
    assert "a part of the key" in finding.why
