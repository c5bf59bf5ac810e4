"""Names as JSON, whatever characters or bytes are in them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.json_text import json_array, json_name


@given(st.text(st.characters(exclude_characters="\0"), max_size=20))
def test_any_name_is_valid_json(name: str) -> None:
    assert json.loads(json_name(name)) == name


def test_names_stay_readable() -> None:
    assert json_name('"größe"') == '"\\"größe\\""'.encode()


@given(st.binary(max_size=20))
def test_names_that_are_not_utf8_are_valid_json(raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    assert json.loads(json_name(name).decode()) == name


def test_an_array_may_be_empty() -> None:
    assert json_array([]) == b"[]"
    assert json_array([b"1", b'"b"']) == b'[1,"b"]'
