"""Postgres's text for numbers that come in binary."""

from typing import Final

from pgrelay.encode.binary.fields import at_end, count, f32, f64, i16, i32, i64, sized, take, u16, u32
from pgrelay.encode.values.floats import float4_text, float8_text

_U64: Final = 0xFFFF_FFFF_FFFF_FFFF

# numeric's sign field, ``src/backend/utils/adt/numeric.c``.
_POSITIVE: Final = 0x0000
_NEGATIVE: Final = 0x4000
_SPECIAL: Final[dict[int, bytes]] = {0xC000: b"NaN", 0xD000: b"Infinity", 0xF000: b"-Infinity"}


def int2_text(value: bytes) -> bytes:
    return b"%d" % i16(sized(value, 2), 0)


def int4_text(value: bytes) -> bytes:
    return b"%d" % i32(sized(value, 4), 0)


def int8_text(value: bytes) -> bytes:
    return b"%d" % i64(sized(value, 8), 0)


def unsigned4_text(value: bytes) -> bytes:
    """oid, xid and cid."""
    return b"%d" % u32(sized(value, 4), 0)


def unsigned8_text(value: bytes) -> bytes:
    """xid8."""
    return b"%d" % (i64(sized(value, 8), 0) & _U64)


def real_text(value: bytes) -> bytes:
    return float4_text(f32(sized(value, 4), 0))


def double_text(value: bytes) -> bytes:
    return float8_text(f64(sized(value, 8), 0))


def numeric_text(value: bytes) -> bytes:
    """From numeric_send's digits in base 10,000; `weight` + 1 of them are before the decimal point.

    Int16 ndigits, Int16 weight, Int16 sign, Int16 dscale, then Int16 for each digit.
    """
    ndigits, weight, sign, dscale = u16(value, 0), i16(value, 2), u16(value, 4), u16(value, 6)
    special = _SPECIAL.get(sign)
    if special is not None:
        return special
    digits = b"".join([_four_digits(u16(value, at)) for at in range(8, 8 + 2 * ndigits, 2)])
    sized(value, 8 + 2 * ndigits)
    if sign not in (_POSITIVE, _NEGATIVE):
        raise ValueError(f"a numeric has the sign 0x{sign:04X}")
    point = 4 * (weight + 1)
    if point > 0:
        whole = digits[:point].ljust(point, b"0").lstrip(b"0") or b"0"
        fraction = digits[point:]
    else:
        whole = b"0"
        fraction = b"0" * -point + digits
    number = b"-" + whole if sign == _NEGATIVE else whole
    return number + b"." + fraction[:dscale].ljust(dscale, b"0") if dscale else number


def money_text(value: bytes) -> bytes:
    """Int64 cents, as lc_monetary = C prints them: ``-$1,234.56``."""
    cents = i64(sized(value, 8), 0)
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02}".encode()


def bits_text(value: bytes) -> bytes:
    """bit and varbit: Int32 number of bits, then the bits, the first in its byte's highest."""
    number = count(value, 0)
    packed = take(value, 4, (number + 7) // 8)
    at_end(value, 4 + len(packed))
    return f"{int.from_bytes(packed, 'big'):0{8 * len(packed)}b}"[:number].encode()


def _four_digits(digit: int) -> bytes:
    if digit > 9999:
        raise ValueError(f"a numeric has the digit {digit} in base 10,000")
    return b"%04d" % digit
