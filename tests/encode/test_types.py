"""Column types: the table of built-in ones, and those that come from the catalogue.

tests/integration tries those of a real catalogue.
"""

from dataclasses import replace
from typing import Final

import pytest

from pgrelay.encode import oids
from pgrelay.encode.types import CatalogType, ColumnType, builtin_type, resolve_type
from tests.encode.json_values import built_in, numeric_typmod

# --- Built-in types


@pytest.mark.parametrize("constant", [name for name in vars(oids) if name.isupper()])
def test_every_named_oid_is_in_the_table_under_that_name(constant: str) -> None:
    assert built_in(vars(oids)[constant]).name == constant.lower()


def test_a_base_type_keeps_its_modifier() -> None:
    assert builtin_type(1700, 393222) == ColumnType(1700, "numeric", 393222)


def test_an_array_type_has_its_element_type_with_the_same_modifier() -> None:
    assert builtin_type(1231, 393222) == ColumnType(
        1231, "_numeric", 393222, element=ColumnType(1700, "numeric", 393222)
    )


def test_only_arrays_of_boxes_use_a_semicolon() -> None:
    assert built_in(1020).delimiter == ";"
    assert built_in(1017).delimiter == ","


def test_a_range_has_its_subtype_and_a_multirange_its_range() -> None:
    tsrange = ColumnType(3908, "tsrange", element=ColumnType(1114, "timestamp"), typtype="r")
    assert builtin_type(3908) == tsrange
    assert builtin_type(4533) == ColumnType(4533, "tsmultirange", element=tsrange, typtype="m")
    assert builtin_type(6152) == ColumnType(6152, "_tsmultirange", element=builtin_type(4533))


def test_two_built_in_types_have_no_binary_form() -> None:
    assert [built_in(oid).has_binary_form for oid in (1033, 3642, 3615, 1034)] == [False, False, True, True]


@pytest.mark.parametrize("oid", [0, 13, 2249, 16_384, 99_999])
def test_other_oids_are_not_built_in(oid: int) -> None:
    assert builtin_type(oid) is None


def test_arrays_are_base_types_with_elements() -> None:
    assert built_in(1007).is_array
    assert not built_in(23).is_array
    assert not built_in(3904).is_array  # int4range
    assert not built_in(4451).is_array  # int4multirange


def test_vectors_are_not_arrays_but_have_array_types() -> None:
    """int2vector and oidvector print as ``1 2 3``, although the catalogue gives them elements."""
    assert not ColumnType(oids.INT2VECTOR, "int2vector", element=built_in(21)).is_array
    assert not ColumnType(oids.OIDVECTOR, "oidvector", element=built_in(26)).is_array
    assert built_in(1013).is_array


def test_hstore_is_a_base_type_of_that_name() -> None:
    assert ColumnType(16_400, "hstore").is_hstore
    assert not ColumnType(16_400, "hstore", typtype="e").is_hstore


def test_an_arrays_modifier_is_its_elements() -> None:
    element = ColumnType(1700, "numeric")
    assert ColumnType(1231, "_numeric", 393222, element).element_type() == ColumnType(1700, "numeric", 393222)
    assert ColumnType(1231, "_numeric", -1, element).element_type() == element


def test_element_type_of_a_type_without_elements_is_an_error() -> None:
    with pytest.raises(ValueError, match="int4 has no elements"):
        built_in(23).element_type()


# --- Types from the catalogue

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
        replace(PLAIN, oid=7, name="lone", typtype="e", has_binary_form=False),
    )
}


def test_a_domain_resolves_to_its_base_type_in_arrays_too() -> None:
    assert resolve_type(1, -1, TYPES) == built_in(1700, PRICE)
    assert resolve_type(2, -1, TYPES) == ColumnType(2, "_numeric", PRICE, built_in(1700, PRICE))


def test_a_domain_inherits_the_dimensions_of_its_base_domain() -> None:
    board = replace(built_in(1007), dimensions=2)
    assert resolve_type(3, -1, TYPES) == board
    assert resolve_type(4, -1, TYPES) == board
    assert resolve_type(5, -1, TYPES) == ColumnType(5, "_board", element=board)


def test_other_types_resolve_as_their_catalog_row_says() -> None:
    assert resolve_type(6, -1, TYPES) == ColumnType(6, "span", element=builtin_type(1700), typtype="r")
    assert resolve_type(7, -1, TYPES) == ColumnType(7, "lone", typtype="e", has_binary_form=False)
    assert resolve_type(8, 3, TYPES) == ColumnType(8, "unknown", 3)
    assert resolve_type(23, -1, TYPES) == builtin_type(23)


def test_parts_lists_the_types_that_a_type_is_made_of() -> None:
    assert [row.parts() for row in TYPES.values()] == [[1700], [1], [1007], [3], [3], [1700], []]
