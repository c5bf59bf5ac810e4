"""Postgres's text for numbers that come in binary."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.binary.fields import (
    float32,
    float64,
    int16,
    int32,
    int64,
    read_bytes,
    read_count,
    require_end,
    require_size,
    uint16,
    uint32,
)
from pgrelay.encode.values.floats import float4_text, float8_text
from pgrelay.encode.values.plain import write_digits, write_number

_MINUS: Final[u8] = ord("-")
_POINT: Final[u8] = ord(".")

_U64: Final = 0xFFFF_FFFF_FFFF_FFFF

# numeric's sign field, ``src/backend/utils/adt/numeric.c``.
_POSITIVE: Final = 0x0000
_NEGATIVE: Final = 0x4000
_SPECIAL: Final[dict[int, bytes]] = {0xC000: b"NaN", 0xD000: b"Infinity", 0xF000: b"-Infinity"}


def int2_text(value: bytes) -> bytes:
    return str(int16(require_size(value, 2), 0)).encode()


def int4_text(value: bytes) -> bytes:
    return str(int32(require_size(value, 4), 0)).encode()


def int8_text(value: bytes) -> bytes:
    return str(int64(require_size(value, 8), 0)).encode()


def unsigned4_text(value: bytes) -> bytes:
    """oid, xid and cid."""
    return str(uint32(require_size(value, 4), 0)).encode()


def unsigned8_text(value: bytes) -> bytes:
    """xid8 and oid8."""
    number: int = int64(require_size(value, 8), 0)
    return str(number & _U64).encode()


def real_text(value: bytes) -> bytes:
    return float4_text(float32(require_size(value, 4), 0))


def double_text(value: bytes) -> bytes:
    return float8_text(float64(require_size(value, 8), 0))


def numeric_text(value: bytes) -> bytes:
    """From numeric_send's digits in base 10,000; `weight` + 1 of them are before the decimal point.

    Int16 ndigits, Int16 weight, Int16 sign, Int16 dscale, then Int16 for each digit.
    """
    ndigits, weight, sign, dscale = uint16(value, 0), int16(value, 2), uint16(value, 4), uint16(value, 6)
    special = _SPECIAL.get(sign)
    if special is not None:
        return special
    require_size(value, 8 + 2 * ndigits)
    if sign != _POSITIVE and sign != _NEGATIVE:
        raise ValueError(f"a numeric has the sign 0x{sign:04X}")
    writer = BytesWriter()
    if sign == _NEGATIVE:
        writer.append(_MINUS)
    _write_whole(writer, value, ndigits, weight + 1)
    if dscale:
        writer.append(_POINT)
        _write_fraction(writer, value, ndigits, weight + 1, dscale)
    return writer.getvalue()


def _write_whole(writer: BytesWriter, value: bytes, ndigits: i64, groups: i64) -> None:
    """Append a numeric's first `groups` digits in base 10,000 without leading zeros, but 0 at least."""
    begun = False
    for index in range(groups):
        four = _four_digits(value, ndigits, index)
        if begun:
            write_digits(writer, four, 4)
        elif four:
            write_number(writer, four)
            begun = True
    if not begun:
        write_number(writer, 0)


def _write_fraction(writer: BytesWriter, value: bytes, ndigits: i64, first: i64, dscale: i64) -> None:
    """Append `dscale` decimal digits of a numeric from that digit in base 10,000 on."""
    end: i64 = len(writer) + dscale
    groups = (dscale + 3) // 4
    for index in range(first, first + groups):
        write_digits(writer, _four_digits(value, ndigits, index), 4)
    writer.truncate(end)


def _four_digits(value: bytes, ndigits: i64, index: i64) -> i64:
    """A numeric's digit in base 10,000; those before its first and after its last are 0."""
    if index < 0 or index >= ndigits:
        return 0
    digit = uint16(value, 8 + 2 * index)
    if digit > 9999:
        raise ValueError(f"a numeric has the digit {digit} in base 10,000")
    return digit


def money_text(value: bytes) -> bytes:
    """Int64 cents, as lc_monetary = C prints them: ``-$1,234.56``."""
    cents: int = int64(require_size(value, 8), 0)
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02}".encode()


def bits_text(value: bytes) -> bytes:
    """bit and varbit: Int32 number of bits, then the bits, the first in its byte's highest."""
    number = read_count(value, 0)
    packed = read_bytes(value, 4, (number + 7) // 8)
    require_end(value, 4 + len(packed))
    return f"{int.from_bytes(packed, 'big'):0{8 * len(packed)}b}"[:number].encode()
