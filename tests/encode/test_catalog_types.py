"""How types from the catalogue resolve. tests/integration tries those of a real catalogue."""

from dataclasses import replace
from typing import Final

from pgrelay.encode.catalog_types import CatalogType, resolved
from pgrelay.encode.types import ColumnType, builtin_type
from tests.encode.json_values import built_in, numeric_typmod

PRICE: Final = numeric_typmod(10, 2)
PLAIN: Final = CatalogType(0, "", "b", 0, -1, 0, 0, "U", ",", None, True)

TYPES: Final = {
    row.oid: row
    for row in (
        replace(PLAIN, oid=1, name="price", typtype="d", base=1700, base_typmod=PRICE),
        replace(PLAIN, oid=2, name="_price", element=1, category="A"),
        replace(PLAIN, oid=3, name="board", typtype="d", base=1007, dimensions=2),
        replace(PLAIN, oid=4, name="small_board", typtype="d", base=3),
        replace(PLAIN, oid=5, name="_board", element=3, category="A"),
        replace(PLAIN, oid=6, name="span", typtype="r", made_of=1700),
        replace(PLAIN, oid=7, name="lone", typtype="e", sends=False),
    )
}


def test_a_domain_resolves_to_its_base_type_in_arrays_too() -> None:
    assert resolved(1, -1, TYPES) == built_in(1700, PRICE)
    assert resolved(2, -1, TYPES) == ColumnType(2, "_numeric", PRICE, built_in(1700, PRICE))


def test_a_domain_inherits_the_dimensions_of_its_base_domain() -> None:
    board = replace(built_in(1007), dimensions=2)
    assert resolved(3, -1, TYPES) == board
    assert resolved(4, -1, TYPES) == board
    assert resolved(5, -1, TYPES) == ColumnType(5, "_board", element=board)


def test_other_types_resolve_as_their_catalog_row_says() -> None:
    assert resolved(6, -1, TYPES) == ColumnType(6, "span", element=builtin_type(1700), typtype="r")
    assert resolved(7, -1, TYPES) == ColumnType(7, "lone", typtype="e", sends=False)
    assert resolved(8, 3, TYPES) == ColumnType(8, "unknown", 3)
    assert resolved(23, -1, TYPES) == builtin_type(23)


def test_parts_lists_the_types_that_a_type_is_made_of() -> None:
    assert [row.parts() for row in TYPES.values()] == [[1700], [1], [1007], [3], [3], [1700], []]
