"""What became of a table's columns, judged by their order, and what remains in doubt."""

from dataclasses import replace

import pytest

from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.renames import find_renames
from tests.spark.handmade_records import numeric

TYPES = {
    "text": Column("", "text"),
    "int": Column("", "int4", encoding="integer"),
    "bigint": Column("", "int8", encoding="integer"),
    "price": Column("", "numeric", numeric(8, 2)),
}


def columns(described: str) -> list[Column]:
    """`a text, b int` as columns."""
    pairs = [each.split() for each in described.split(", ")]
    return [replace(TYPES[kind], name=name) for name, kind in pairs]


@pytest.mark.parametrize(
    ("before", "after", "renames"),
    [
        ("id int, a text, z int", "id int, b text, z int", {"a": "b"}),
        ("id int, a int, z int", "id int, b bigint, z int", {"a": "b"}),  # and retyped
        ("id int, a text, b int, z int", "id int, x text, z int", {"a": "x"}),  # b dropped
        ("id int, a text", "id int, b text", {"a": "b"}),
        ("id int, a text", "id int, b text, c int", {"a": "b"}),
        ("id int, a text", "id int, b bigint", {}),  # dropped and added
        ("id int, a text, z int", "id int, z int, b text", {}),
        ("id int, a text", "id int, a text, b int", {}),
        ("id int, a text, z int", "id int, z int", {}),
        ("id int, a text", "id int", {}),
    ],
)
def test_order_and_types_identify_a_rename(before: str, after: str, renames: dict[str, str]) -> None:
    found = find_renames(columns(before), columns(after))
    assert (found.by_name, found.doubt) == (renames, None)


@pytest.mark.parametrize(
    ("before", "after", "doubt"),
    [
        ("id int, a text, b text", "id int, b text, a text", "'id', 'b', 'a' have another order"),
        ("id int, price int, new int, z int", "id int, old int, price int, z int", "'old' comes before"),
        ("id int, a text, b text, z int", "id int, x text, z int", "which of 'a', 'b' became 'x'"),
        ("id int, a int", "id int, b bigint", "which of 'a' became 'b'"),
        ("id int, a text, b int", "id int, x text, y text", "which of 'a', 'b' became 'x', 'y'"),
        ("id int, a text, b text", "id int, x text", "which of 'a', 'b' became 'x'"),
    ],
)
def test_an_ambiguous_rename_is_not_guessed(before: str, after: str, doubt: str) -> None:
    found = find_renames(columns(before), columns(after)).doubt
    assert found is not None
    assert doubt in found
