"""Converts Postgres's text of a value to its Avro body. Each raises ValueError if the type can't hold it.

Avro's logical types have no place for infinite dates and timestamps, NaN in a decimal, a time of 24:00:00 and
timestamps past what 64 bits of microseconds hold. None of them is replaced by another value.
"""

import math
from fractions import Fraction
from typing import Final

from librt.strings import BytesWriter, read_f32_le, read_i64_be, write_f32_le, write_f64_be, write_f64_le
from mypy_extensions import i64, u8

from pgrelay.encode.avro.body import PRESENT, long, sized
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.values.civil import DAY_US
from pgrelay.encode.values.digits import MINUS, SAFE_DIGITS, few_decimals
from pgrelay.encode.values.marks import Marks
from pgrelay.encode.values.numbers import NOT_FINITE, integer_bytes, is_number, unscaled
from pgrelay.encode.values.temporal import day_micros, days, is_infinite, micros, utc_day_micros

_I64_MAX: Final = (1 << 63) - 1

# Every integer up to this is a double.
_EXACT: Final = 1 << 53

# Halfway between the largest float and the one that would follow.
_PAST_FLOATS: Final = float((1 << 128) - (1 << 103))

# The bits of a double that neither a float nor the middle between two of them has.
_BEYOND_MIDDLES: Final = 0x0FFF_FFFF

# A collection is written in blocks of one item each, with the block's count before the item. So the text's
# brackets and commas become bytes, and nothing has to be counted in advance.
_ONE: Final = b"\x02"
ARRAY: Final = Marks(b"\x00", _ONE, _ONE, b"\x00", b"\x00", PRESENT)
MAP: Final = ARRAY


def boolean(value: bytes) -> bytes:
    if value == b"t":
        return b"\x01"
    if value == b"f":
        return b"\x00"
    raise invalid_value(value, "a boolean as Postgres prints one")


def write_double(writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
    """Append the double that is nearest to the decimal in `data[start:end]`."""
    found = _nearest(data, start, end)
    if math.isinf(found) and data[start:end] not in NOT_FINITE:
        raise invalid_value(data[start:end], "a number that a double holds")
    write_f64_le(writer, found)


def single(value: bytes) -> bytes:
    """A float: the nearest to the decimal, which need not be the nearest to the decimal's double."""
    found = _nearest(value, 0, len(value))
    if abs(found) >= _PAST_FLOATS and value not in NOT_FINITE:
        raise invalid_value(value, "a number that a float holds")
    body = _float_bytes(found)
    if read_f32_le(body, 0) != found and not _bits(found) & _BEYOND_MIDDLES and math.isfinite(found):
        body = _float_bytes(_off_the_middle(value, found))
    return body


def _nearest(data: bytes, start: i64, end: i64) -> float:
    """The double that is nearest to the decimal in `data[start:end]`."""
    first: i64 = start + 1 if end > start and data[start] == MINUS else start
    number, places = few_decimals(data, first, end)
    if 0 <= number <= _EXACT:
        # The quotient of two doubles that are exact is the nearest, too.
        power = 1.0
        for _ in range(places):
            power *= 10.0
        found = float(number) / power
        return -found if first > start else found
    value = data[start:end]
    if not is_number(value) and value not in NOT_FINITE:
        raise invalid_value(value, "a number as Postgres prints one")
    return float(value)


def _float_bytes(found: float) -> bytes:
    writer = BytesWriter()
    write_f32_le(writer, found)
    return writer.getvalue()


def _bits(found: float) -> int:
    writer = BytesWriter()
    write_f64_be(writer, found)
    return int(read_i64_be(writer.getvalue(), 0))


def _off_the_middle(value: bytes, found: float) -> float:
    """The double, moved towards the decimal's side in case it is the middle between two floats."""
    exact, rounded = Fraction(value.decode()), Fraction(found)
    if exact == rounded:
        return found
    return math.nextafter(found, math.inf if exact > rounded else -math.inf)


def finite_days(data: bytes, start: i64, end: i64) -> i64:
    """Days since 1970-01-01, of the date in `data[start:end]`."""
    if is_infinite(data, start, end):
        raise invalid_value(data[start:end], "a date that Avro's logical type holds")
    return days(data, start, end)


def finite_micros(data: bytes, start: i64, end: i64) -> i64:
    """Microseconds since 1970-01-01 00:00, of the timestamp in `data[start:end]`."""
    if is_infinite(data, start, end):
        raise invalid_value(data[start:end], "a timestamp that Avro's logical type holds")
    found = micros(data, start, end)
    if found > _I64_MAX:
        raise invalid_value(data[start:end], "a timestamp that 64 bits of microseconds hold")
    return found


def time(value: bytes) -> bytes:
    """Microseconds since midnight."""
    return _within_day(value, day_micros(value, 0, len(value)))


def utc_time(value: bytes) -> bytes:
    """A timetz as microseconds since midnight UTC."""
    return _within_day(value, utc_day_micros(value))


def _within_day(value: bytes, found: i64) -> bytes:
    if found >= DAY_US:
        raise invalid_value(value, "a time that Avro's logical type holds: 23:59:59.999999 is its last")
    return long(found)


def decimal(value: bytes, scale: int) -> bytes:
    """The unscaled value of a numeric with that declared scale, big-endian two's complement."""
    if value in NOT_FINITE:
        raise invalid_value(value, "a number that an Avro decimal holds; records.numeric: double keeps it")
    return sized(integer_bytes(unscaled(value, scale)))


def write_decimal(writer: BytesWriter, data: bytes, start: i64, end: i64, scale: i64) -> None:
    """Append what `decimal` gives of `data[start:end]`. Compiled, a number of few digits needs no object."""
    first: i64 = start + 1 if end > start and data[start] == MINUS else start
    number, places = few_decimals(data, first, end)
    zeros: i64 = scale - places
    if number < 0 or zeros < 0 or end - first + zeros > SAFE_DIGITS:
        writer.write(decimal(data[start:end], scale))
        return
    for _ in range(zeros):
        number *= 10
    _write_integer(writer, -number if first > start else number)


def _write_integer(writer: BytesWriter, number: i64) -> None:
    """Append an integer in as few bytes of big-endian two's complement as hold it, after their number."""
    bytes_: i64 = 1
    rest: i64 = number >> 7
    while rest != 0 and rest != -1:
        rest >>= 8
        bytes_ += 1
    writer.append(u8(bytes_ << 1))
    shift: i64 = bytes_ * 8
    while shift > 0:
        shift -= 8
        writer.append(u8((number >> shift) & 0xFF))
