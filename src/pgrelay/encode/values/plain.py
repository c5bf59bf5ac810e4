"""Bytes of a row's TupleData that go into a record as they are, without an object for each value.

Compiled code reads, checks and writes eight bytes at a time; interpreted, a slice is the fastest.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from pgrelay.encode.values.digits import COMPILED

# What JSON wants escaped inside a string (RFC 8259, section 7).
_ESCAPED: Final = bytes(range(0x20)) + b'"\\'

# From this length on, a slice (an object) and one copy of it cost less than copying words.
_LONG: Final = 96

# The bit 1 in each of eight bytes.
_ONES: Final[i64] = 0x0101_0101_0101_0101
_SPACES: Final[i64] = 0x2020_2020_2020_2020
_QUOTES: Final[i64] = 0x2222_2222_2222_2222
_BACKSLASH: Final = 0x5C
_ZERO: Final = ord("0")


def needs_escape(data: bytes) -> bool:
    """Whether a JSON string of UTF-8 text differs from the bytes between quotes."""
    return len(data.translate(None, _ESCAPED)) != len(data)


def copy(writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
    """Append `data[start:end]`."""
    size: i64 = end - start
    if not COMPILED or size >= _LONG:
        writer.write(data[start:end])
        return
    at: i64 = start
    last: i64 = len(data) - 8
    while at < end and at <= last:
        write_i64_le(writer, read_i64_le(data, at))
        at += 8
    if at > end:
        writer.truncate(len(writer) - (at - end))
    while at < end:
        writer.append(u8(data[at]))
        at += 1


def write_number(writer: BytesWriter, number: i64) -> None:
    """Append the decimal digits of a number that is not negative."""
    if not COMPILED:
        writer.write(b"%d" % number)
        return
    if number >= 10:
        write_number(writer, number // 10)
    writer.append(u8(_ZERO + number % 10))


def is_plain(data: bytes, start: i64, end: i64) -> bool:
    """Whether UTF-8 text, `data[start:end]`, can stand between JSON's quotes as it is."""
    if not COMPILED:
        return not needs_escape(data[start:end])
    at: i64 = start
    last: i64 = end - 8
    if at > last:
        byte: u8
        while at < end:
            byte = data[at]
            if byte < 0x20 or byte == 0x22 or byte == 0x5C:
                return False
            at += 1
        return True
    while at < last:
        if not _plain_word(read_i64_le(data, at)):
            return False
        at += 8
    return _plain_word(read_i64_le(data, last))


def _plain_word(word: i64) -> bool:
    """Whether none of eight bytes is a control character, a quote or a backslash.

    It only shifts right and never adds, so that nothing leaves 64 bits. One bit per byte says that one of its
    upper three bits is set, and that any of its bits differs from the quote, and from the backslash.
    """
    # A product, because a compiled constant of all 64 bits would be an object.
    ones: i64 = _ONES
    if (word | word >> 1 | word >> 2) & _SPACES != _SPACES:
        return False
    quote: i64 = word ^ _QUOTES
    quote |= quote >> 4
    quote |= quote >> 2
    backslash: i64 = word ^ ones * _BACKSLASH
    backslash |= backslash >> 4
    backslash |= backslash >> 2
    return (quote | quote >> 1) & (backslash | backslash >> 1) & ones == ones
