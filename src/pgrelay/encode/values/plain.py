"""Bytes of a row's TupleData that go into a record as they are, without an object for each value.

Compiled code copies eight bytes at a time; interpreted, a slice is the fastest.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from pgrelay.encode.values.digits import COMPILED

# From this length on, a slice (an object) and one copy of it cost less than copying words.
_LONG: Final = 96

_ZERO: Final = ord("0")


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


def write_digits(writer: BytesWriter, number: i64, size: i64) -> None:
    """Append the last `size` decimal digits of a number that is not negative."""
    if size > 1:
        write_digits(writer, number // 10, size - 1)
    writer.append(u8(_ZERO + number % 10))
