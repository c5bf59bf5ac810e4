"""Bytes are copied in words; the result must be as if byte by byte, at every alignment."""

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.values.plain import copy, write_number

# As in a row: bytes before, the value, bytes after.
surroundings = st.tuples(st.binary(max_size=12), st.binary(max_size=140), st.binary(max_size=12))


@given(surroundings)
def test_a_copy_has_only_the_bytes_of_its_range(parts: tuple[bytes, bytes, bytes]) -> None:
    before, value, behind = parts
    writer = BytesWriter()
    writer.write(b"written")
    copy(writer, before + value + behind, len(before), len(before) + len(value))
    assert writer.getvalue() == b"written" + value


@given(st.integers(0, (1 << 63) - 1))
def test_a_number_is_written_in_its_digits(number: int) -> None:
    writer = BytesWriter()
    write_number(writer, number)
    assert writer.getvalue() == b"%d" % number
