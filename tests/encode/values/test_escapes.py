"""Text is looked at in words; the result must be as if byte by byte, at every alignment."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.values.escapes import escaped, write_escaped

# The bytes that must be escaped, and those that differ from them by one bit or by one.
NEAR = bytes(bit ^ byte for byte in b'"\\\x1f\x20' for bit in (0, 1, 2, 4, 8, 16, 32, 64, 128)) + b"\x00!#[]"

TEXT = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\\n\t\x00\x1f /')))


def written(before: bytes, value: bytes, behind: bytes) -> bytes:
    writer = BytesWriter()
    writer.write(b"written")
    write_escaped(writer, before + value + behind, len(before), len(before) + len(value))
    assert writer.getvalue()[:7] == b"written"
    return writer.getvalue()[7:]


@given(st.binary(max_size=12), TEXT, st.binary(max_size=12))
def test_only_the_text_is_written_as_pythons_json_writes_it(before: bytes, text: str, behind: bytes) -> None:
    expected = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    assert written(before, text.encode(), behind) == expected


@given(st.binary(max_size=12), st.binary(max_size=140), st.binary(max_size=12))
def test_any_bytes_are_written_as_they_are_escaped(before: bytes, value: bytes, behind: bytes) -> None:
    """Compiled and interpreted code do it in different ways."""
    assert written(before, value, behind) == escaped(value)


@pytest.mark.parametrize("size", range(1, 18))
def test_a_byte_that_must_be_escaped_is_found_at_every_position(size: int) -> None:
    for place in range(size):
        for byte in NEAR:
            value = bytearray(b"a" * size)
            value[place] = byte
            assert written(b"", bytes(value), b"") == escaped(bytes(value)), (place, byte)
