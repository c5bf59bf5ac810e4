"""The parts of Avro bodies: the binary encoding of primitive values (specification, "Binary Encoding")."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

# The branch of a union ["null", T].
NULL: Final = b"\x00"
PRESENT: Final = b"\x02"

_CONTINUED: Final = 0x80
_LOW: Final = 0x7F
# Positive numbers below this take one byte.
_ONE_BYTE: Final = 64
# Masks out the sign bits that a right shift brings in.
_SHIFTED: Final = 0x01FF_FFFF_FFFF_FFFF


def header(schema_id: int) -> bytes:
    """What a registry's clients expect before a body: a zero byte, and the schema's id in four."""
    return b"\0" + schema_id.to_bytes(4, "big")


def write_long(writer: BytesWriter, value: i64) -> None:
    """An int or long: zig-zag, then seven bits a byte, the lowest first."""
    rest: i64 = (value << 1) ^ (value >> 63)
    while rest & ~_LOW:
        writer.append(u8((rest & _LOW) | _CONTINUED))
        rest = (rest >> 7) & _SHIFTED
    writer.append(u8(rest))


def write_length(writer: BytesWriter, size: i64) -> None:
    """What precedes bytes, or a string as UTF-8: their number as a long."""
    if size < _ONE_BYTE:
        writer.append(u8(size << 1))
    else:
        write_long(writer, size)


def long(value: i64) -> bytes:
    writer = BytesWriter()
    write_long(writer, value)
    return writer.getvalue()


def sized(value: bytes) -> bytes:
    """Bytes, or the UTF-8 of a string, after their number."""
    return long(len(value)) + value


def string(text: str) -> bytes:
    return sized(text.encode())


def boolean(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def optional_long(value: int | None) -> bytes:
    """A value of the type ["null", "long"]."""
    return NULL if value is None else PRESENT + long(value)


def optional_string(text: str | None) -> bytes:
    """A value of the type ["null", "string"]."""
    return NULL if text is None else PRESENT + string(text)


def array(items: list[bytes]) -> bytes:
    """An array: one block of items that are encoded already, and the end."""
    return long(len(items)) + b"".join(items) + b"\0" if items else b"\0"
