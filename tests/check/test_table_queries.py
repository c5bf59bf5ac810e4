"""What identifies a table's rows, and what their key is (manual, ALTER TABLE, REPLICA IDENTITY)."""

from typing import Any

import pytest

from pgrelay.check.table_queries import lists_differ
from tests.check.tables import table


@pytest.mark.parametrize(
    ("changes", "identified", "key"),
    [
        ({}, True, ("id",)),
        ({"primary_key": ()}, False, ()),
        ({"deferrable": True}, False, ()),
        ({"identity": "f"}, True, ("id",)),
        ({"identity": "f", "deferrable": True}, True, ("id",)),
        ({"identity": "f", "primary_key": ()}, True, ()),
        ({"identity": "n"}, False, ()),
        ({"identity": "i", "identity_index": ("a", "b")}, True, ("a", "b")),
        ({"identity": "i"}, False, ()),
    ],
)
def test_a_table_is_identified_and_keyed_by_its_replica_identity(
    changes: dict[str, Any], identified: bool, key: tuple[str, ...]
) -> None:
    each = table(**changes)
    assert (each.identified, each.key) == (identified, key)


def test_column_lists_in_another_order_do_not_differ() -> None:
    assert not lists_differ([])
    assert not lists_differ([["a", "b"]])
    assert not lists_differ([["a", "b"], ["b", "a"]])
    assert lists_differ([["a", "b"], ["a"]])
