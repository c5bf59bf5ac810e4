"""JSON objects from hstore's text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.hstore import hstore_converter
from pgrelay.encode.values.json_value import json_string, json_string_checked
from pgrelay.encode.values.text import text_encoding

HSTORE = ColumnType(16_400, "hstore")
convert = hstore_converter(json_string)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", {}),
        (b'"a"=>"1"', {"a": "1"}),
        (b'"a"=>"1", "b"=>NULL', {"a": "1", "b": None}),
        (b'"a"=>"NULL", ""=>""', {"a": "NULL", "": ""}),
        (rb'"q\"k"=>"b\\s", "n"=>"x=>y, \"z\""', {'q"k': "b\\s", "n": 'x=>y, "z"'}),
        ('"é"=>"漢\n"'.encode(), {"é": "漢\n"}),
    ],
)
def test_an_hstore_is_an_object_of_strings_and_nulls(value: bytes, expected: dict[str, str | None]) -> None:
    assert json.loads(convert(value)) == expected


def test_the_pairs_keep_postgress_order() -> None:
    assert convert(b'"b"=>"1", "aa"=>"2"') == b'{"b":"1","aa":"2"}'


def test_an_hstores_encoding_is_named_object() -> None:
    assert text_encoding(HSTORE, Encodings()).name == "object"


def test_checked_text_refuses_invalid_utf8() -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        hstore_converter(json_string_checked)(b'"a"=>"\xff"')


@pytest.mark.parametrize(
    "value",
    [
        b"a",
        b'"a"',
        b'"a"=>',
        b'"a"=>1',
        b'"a"=>"1",',
        b'"a"=>"1", ',
        b'"a"=>"1" "b"=>"2"',
        b'"a=>"1"',
        b'"a"=>null',
    ],
)
def test_malformed_hstores_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="is not an hstore"):
        convert(value)


def print_hstore(pairs: dict[str, str | None]) -> bytes:
    """As hstore_out does."""

    def quote(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return ", ".join(f"{quote(k)}=>{'NULL' if v is None else quote(v)}" for k, v in pairs.items()).encode()


@given(st.dictionaries(st.text(max_size=5), st.none() | st.text('",=>\\ NULLé\n', max_size=8)))
def test_everything_that_hstore_out_prints_is_read(pairs: dict[str, str | None]) -> None:
    assert json.loads(convert(print_hstore(pairs))) == pairs
