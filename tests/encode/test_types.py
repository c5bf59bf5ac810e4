"""Column types, and the table of built-in ones."""

import pytest

from pgrelay.encode import oids
from pgrelay.encode.types import ColumnType, array_of, builtin_type
from tests.encode.json_values import built_in


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
    assert [built_in(oid).sends for oid in (1033, 3642, 3615, 1034)] == [False, False, True, True]


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


def test_array_encodings_are_named_by_their_elements() -> None:
    assert array_of("integer") == "array<integer>"
