"""Primitive values in Avro's binary encoding, read back by fastavro."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgrelay.encode.avro import body
from tests.encode.decoded_avro import whole_value

I64 = st.integers(-(2**63), 2**63 - 1)


@given(I64)
@example(-(2**63))
@example(2**63 - 1)
def test_longs_read_back(value: int) -> None:
    assert whole_value("long", body.long(value)) == value


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (2**62, "80808080808080808001")],
)
def test_longs_are_zig_zag(value: int, encoded: str) -> None:
    assert body.long(value).hex() == encoded


@given(st.text())
def test_strings_read_back(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        return
    assert whole_value("string", body.string(text)) == text
    assert whole_value(["null", "string"], body.optional_string(text)) == text


@given(st.binary())
def test_bytes_read_back(value: bytes) -> None:
    assert whole_value("bytes", body.sized(value)) == value


@given(st.lists(I64))
def test_arrays_read_back(values: list[int]) -> None:
    items = [body.long(value) for value in values]
    assert whole_value({"type": "array", "items": "long"}, body.array(items)) == values


def test_an_absent_optional_value_is_null() -> None:
    assert whole_value(["null", "long"], body.optional_long(None)) is None
    assert whole_value(["null", "string"], body.optional_string(None)) is None


def test_a_header_is_a_zero_byte_and_the_schema_id() -> None:
    assert body.header(0x01020304) == b"\0\1\2\3\4"
