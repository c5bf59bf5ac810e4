"""Bytes that are looked at and copied as words: they must come out as if one by one, wherever they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.values.plain import copy, is_plain, needs_escape, write_number

# Those that must be escaped, and their neighbours by one bit or by one.
NEAR = bytes(bit ^ byte for byte in b'"\\\x1f\x20' for bit in (0, 1, 2, 4, 8, 16, 32, 64, 128)) + b"\x00!#[]"

# As they stand in a row: something before, the value, something behind.
surroundings = st.tuples(st.binary(max_size=12), st.binary(max_size=140), st.binary(max_size=12))


@given(surroundings)
def test_a_copy_is_the_range_and_nothing_of_its_neighbours(parts: tuple[bytes, bytes, bytes]) -> None:
    before, value, behind = parts
    writer = BytesWriter()
    writer.write(b"written")
    copy(writer, before + value + behind, len(before), len(before) + len(value))
    assert writer.getvalue() == b"written" + value


@given(surroundings)
def test_what_is_plain_needs_no_escape(parts: tuple[bytes, bytes, bytes]) -> None:
    """Compiled and interpreted code find out by different ways."""
    before, value, behind = parts
    plain = is_plain(before + value + behind, len(before), len(before) + len(value))
    assert plain == (not needs_escape(value))


@pytest.mark.parametrize("size", range(1, 18))
def test_a_byte_that_must_be_escaped_is_seen_in_every_place(size: int) -> None:
    for place in range(size):
        for byte in NEAR:
            value = bytearray(b"a" * size)
            value[place] = byte
            assert is_plain(bytes(value), 0, size) == (not needs_escape(bytes(value))), (place, byte)


@given(st.integers(0, (1 << 63) - 1))
def test_a_number_is_written_in_its_digits(number: int) -> None:
    writer = BytesWriter()
    write_number(writer, number)
    assert writer.getvalue() == b"%d" % number
