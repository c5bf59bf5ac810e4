"""Bytes are checked and copied in words; the result must be as if byte by byte, at every alignment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.values.plain import copy, is_plain, needs_escape, write_number

# The bytes that must be escaped, and those that differ from them by one bit or by one.
NEAR = bytes(bit ^ byte for byte in b'"\\\x1f\x20' for bit in (0, 1, 2, 4, 8, 16, 32, 64, 128)) + b"\x00!#[]"

# As in a row: bytes before, the value, bytes after.
surroundings = st.tuples(st.binary(max_size=12), st.binary(max_size=140), st.binary(max_size=12))


@given(surroundings)
def test_a_copy_has_only_the_bytes_of_its_range(parts: tuple[bytes, bytes, bytes]) -> None:
    before, value, behind = parts
    writer = BytesWriter()
    writer.write(b"written")
    copy(writer, before + value + behind, len(before), len(before) + len(value))
    assert writer.getvalue() == b"written" + value


@given(surroundings)
def test_plain_bytes_are_exactly_those_that_need_no_escape(parts: tuple[bytes, bytes, bytes]) -> None:
    """Compiled and interpreted code check it in different ways."""
    before, value, behind = parts
    plain = is_plain(before + value + behind, len(before), len(before) + len(value))
    assert plain == (not needs_escape(value))


@pytest.mark.parametrize("size", range(1, 18))
def test_a_byte_that_must_be_escaped_is_found_at_every_position(size: int) -> None:
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
