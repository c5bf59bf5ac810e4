"""Fields of binary values: network byte order, and no reading past the end."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.binary import fields


@pytest.mark.parametrize(
    ("read", "layout", "value"),
    [
        (fields.int16, ">h", -2),
        (fields.uint16, ">H", 65_535),
        (fields.int32, ">i", -(2**31)),
        (fields.uint32, ">I", 2**32 - 1),
        (fields.int64, ">q", -(2**63)),
        (fields.float32, ">f", 1.5),
        (fields.float64, ">d", -0.1),
    ],
)
def test_a_number_past_the_end_is_refused(
    read: Callable[[bytes, int], float], layout: str, value: float
) -> None:
    packed = struct.pack(layout, value)
    assert read(b"\xaa" + packed + b"\xbb", 1) == value
    with pytest.raises(ValueError, match="the value ends at byte"):
        read(b"\xaa" + packed[:-1], 1)


def test_any_other_size_is_refused() -> None:
    assert fields.require_size(b"ab", 2) == b"ab"
    with pytest.raises(ValueError, match="has 3 bytes where its binary form has 2"):
        fields.require_size(b"abc", 2)


@given(st.binary(max_size=8), st.integers(0, 10), st.integers(-5, 10))
def test_take_returns_exactly_that_many_bytes_or_refuses(value: bytes, at: int, size: int) -> None:
    try:
        taken = fields.read_bytes(value, at, size)
    except ValueError:
        assert size < 0 or at + size > len(value)
    else:
        assert taken == value[at : at + size]
        assert len(taken) == size


def test_a_negative_count_is_refused() -> None:
    assert fields.read_count(b"\0\0\0\x05", 0) == 5
    with pytest.raises(ValueError, match="a count of -1"):
        fields.read_count(b"\xff\xff\xff\xff", 0)


def test_at_end_refuses_leftover_bytes() -> None:
    fields.require_end(b"ab", 2)
    with pytest.raises(ValueError, match="has 2 bytes where its fields end at 1"):
        fields.require_end(b"ab", 1)
