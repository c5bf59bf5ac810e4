"""JSON arrays from text, tested against a printer that works like array_out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.arrays import array_converter
from pgrelay.encode.values.text import text_encoding
from tests.encode.json_values import built_in, from_text

INT4S = built_in(1007)
TEXTS = built_in(1009)
TEXT_ARRAY = array_converter(text_encoding(built_in(25), Encodings()), ",")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"{}", b"[]"),
        (b"{1}", b"[1]"),
        (b"{1,2,NULL,-4}", b"[1,2,null,-4]"),
        (b"{{1,2},{3,NULL}}", b"[[1,2],[3,null]]"),
        (b"{{{1},{2}},{{3},{4}}}", b"[[[1],[2]],[[3],[4]]]"),
        (b"{{{{{{1}}}}}}", b"[[[[[[1]]]]]]"),
    ],
)
def test_an_array_is_nested_by_dimension(value: bytes, expected: bytes) -> None:
    assert from_text(INT4S, value) == expected


@pytest.mark.parametrize("value", [b"[0:1]={1,2}", b"[-3:-2]={1,2}", b"[2:3]={1,2}"])
def test_bounds_are_omitted(value: bytes) -> None:
    assert from_text(INT4S, value) == b"[1,2]"


def test_bounds_of_every_dimension_are_omitted() -> None:
    assert from_text(TEXTS, b'[0:1][-1:0]={{a,"b=c"},{"{",d}}') == b'[["a","b=c"],["{","d"]]'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"{a,b c}", ["a", "b c"]),
        (b'{"a,b","{}"," "}', ["a,b", "{}", " "]),
        (b'{"",NULL,"NULL","null",Null1}', ["", None, "NULL", "null", "Null1"]),
        (rb'{"\"","\\","\\\"",a}', ['"', "\\", '\\"', "a"]),
        (b'{"two\nlines","t\tb"}', ["two\nlines", "t\tb"]),
        ("{é,漢,😀}".encode(), ["é", "漢", "😀"]),
        (b'{{"a}",b},{c,"{d"}}', [["a}", "b"], ["c", "{d"]]),
        (b'{{a,NULL},{"",NULL}}', [["a", None], ["", None]]),
    ],
)
def test_elements_are_unquoted(value: bytes, expected: Any) -> None:
    assert json.loads(from_text(TEXTS, value)) == expected


def test_boxes_are_separated_by_semicolons() -> None:
    assert from_text(built_in(1020), b"{(3,4),(1,2);(1,1),(0,0)}") == b'["(3,4),(1,2)","(1,1),(0,0)"]'
    assert from_text(built_in(1020), b"{{(3,4),(1,2)};{NULL}}") == b'[["(3,4),(1,2)"],[null]]'


@pytest.mark.parametrize(
    ("oid", "value", "choices", "expected"),
    [
        (1000, b"{t,f,NULL}", Encodings(), b"[true,false,null]"),
        (1022, b"{1.5,NaN,-Infinity,1e+20}", Encodings(), b'[1.5,"NaN","-Infinity",1e+20]'),
        (1231, b"{1.50,NaN}", Encodings(), b'["1.50","NaN"]'),
        (1231, b"{1.50,NaN}", Encodings(numeric="double"), b'[1.50,"NaN"]'),
        (1001, rb'{"\\x00ff","\\x"}', Encodings(), b'["AP8=",""]'),
        (1001, rb'{"\\x00ff","\\x"}', Encodings(binary="hex"), b'["00ff",""]'),
        (1115, b'{"2026-11-20 14:54:02",infinity}', Encodings(), b'["2026-11-20T14:54:02","infinity"]'),
        (1115, b'{"1970-01-01 00:00:01"}', Encodings(time="debezium"), b"[1000000]"),
        (3807, rb'{"{\"a\": [1, \"x\"]}",1}', Encodings(json="inline"), b'[{"a": [1, "x"]},1]'),
        (3807, rb'{"{\"a\": 1}"}', Encodings(), rb'["{\"a\": 1}"]'),
        (1187, b"{P1Y,infinity}", Encodings(), b'["P1Y","infinity"]'),
        (791, b'{"$1,234.56"}', Encodings(), b'["1234.56"]'),
        (3905, b'{empty,"[1,5)"}', Encodings(), b'["empty","[1,5)"]'),
    ],
)
def test_elements_have_their_types_encoding(
    oid: int, value: bytes, choices: Encodings, expected: bytes
) -> None:
    assert from_text(built_in(oid), value, choices) == expected


def test_an_array_of_hstore_is_an_array_of_objects() -> None:
    column = ColumnType(16_402, "_hstore", element=ColumnType(16_400, "hstore"))
    assert from_text(column, rb'{"\"a\"=>\"1\"",""}') == b'[{"a":"1"},{}]'


def test_an_arrays_modifier_applies_to_its_elements() -> None:
    column = built_in(1231, ((5 << 16) | 2) + 4)
    encoding = text_encoding(column, Encodings(numeric="precise"))
    assert encoding.name == "array<decimal-base64>"
    assert encoding.convert is not None
    assert encoding.convert(b"{1.27}") == b'["fw=="]'


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"1,2",
        b"{",
        b"}",
        b"{1",
        b"1}",
        b"{1,2",
        b"{1}}",
        b"{{1}",
        b"{{1},2",
        b"{1}x",
        b"{1},{2}",
        b"{1,}",
        b"{,1}",
        b"{,}",
        b"{{}}",
        b'{"a}',
        b'{"a"b}',
        b'{a"b"}',
        b"{a\\}",
        b'{"a\\"}',
        b'{"a",b\\}',
        b'{"a",}',
        b'{"a",,"b"}',
        b'{"a",{b}c}',
        b"{" * 7 + b"1" + b"}" * 7,
        b"{" * 100_000 + b"}" * 100_000,
        b"[0:1]",
        b"[0:1]=",
        b"[0:1]=1,2",
        b"[1,2]",
    ],
)
def test_malformed_arrays_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"is not an array|holds nothing"):
        from_text(TEXTS, value)


def print_array(array: list[Any]) -> bytes:
    """As array_out does: only elements that need quotes have them."""
    return b"{" + b",".join(print_element(item) for item in array) + b"}"


def print_element(item: Any) -> bytes:
    if item is None:
        return b"NULL"
    if isinstance(item, list):
        return print_array(item)
    text: bytes = item.encode()
    plain = text and text.upper() != b"NULL" and not any(c in b'{},"\\ \t\n\v\f\r' for c in text)
    return text if plain else b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def arrays(dimensions: list[int]) -> st.SearchStrategy[list[Any]]:
    """Arrays of those lengths, with text and nulls that parsers easily get wrong."""
    text = st.one_of(st.text(max_size=6), st.text('{},"\\ NUL=[]', max_size=6))
    of: st.SearchStrategy[Any] = st.none() | text
    for length in reversed(dimensions):
        of = st.lists(of, min_size=length, max_size=length)
    return of


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4).flatmap(arrays))
def test_everything_that_array_out_prints_is_read(array: list[Any]) -> None:
    assert json.loads(TEXT_ARRAY(print_array(array))) == array


@given(st.binary(max_size=12) | st.text('{},"\\aN=[', max_size=12).map(str.encode))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    try:
        encoded = TEXT_ARRAY(value)
    except ValueError:
        return
    assert isinstance(json.loads(encoded.decode("utf-8", "replace")), list)
