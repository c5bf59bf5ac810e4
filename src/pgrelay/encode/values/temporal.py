"""JSON forms of dates and times, from Postgres's text under DateStyle ISO and TimeZone UTC.

``iso`` keeps Postgres's digits: ``2026-11-20T14:54:02.343135``, with ``Z`` if the type has a zone. A
year before Christ stays as Postgres writes it, ``0044-03-15T12:00:00Z BC``; so do ``infinity`` and
``-infinity``, in both forms. ``debezium`` counts: days since 1970-01-01, microseconds since then or since
midnight.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.values.civil import DAY_US, days_from_civil
from pgrelay.encode.values.digits import ZERO, number
from pgrelay.encode.values.plain import copy

# Days from 1970 whose microseconds fit in 64 bits.
_SAFE_DAYS: Final = 106_000_000

# Without fraction and zone.
_SHORTEST: Final = len("2026-11-20 14:54:02")
_SPACE: Final = ord(" ")
_QUOTE: Final[u8] = ord('"')
_T: Final[u8] = ord("T")
_PLUS: Final = ord("+")
_MINUS: Final = ord("-")
_COLON: Final = ord(":")
_POINT: Final = ord(".")
_B: Final = ord("B")
_C: Final = ord("C")
_Y: Final = ord("y")


def iso_timestamp(value: bytes) -> bytes:
    """A timestamp as an ISO 8601 string, from ``2026-11-20 14:54:02.343135``."""
    date, _, time = value.partition(b" ")
    if date[-3:-2] == b"-" and time:
        return b'"' + date + b"T" + time + b'"'
    return _infinity(value)


def iso_timestamptz(value: bytes) -> bytes:
    """A timestamptz as an ISO 8601 string in UTC, from ``2026-11-20 14:54:02.343135+00``."""
    date, _, time = value.partition(b" ")
    if date[-3:-2] == b"-":
        if time.endswith(b"+00"):
            return b'"' + date + b"T" + time[:-3] + b'Z"'
        if time.endswith(b"+00 BC"):
            return b'"' + date + b"T" + time[:-6] + b'Z BC"'
    return _infinity(value)


def write_timestamp(writer: BytesWriter, data: bytes, start: i64, end: i64, zone: bool) -> bool:
    """Append `iso_timestamptz` (if `zone`) or `iso_timestamp` of `data[start:end]`.

    False, and nothing appended, if the year does not have four digits or the end is unusual.
    """
    if end - start < _SHORTEST or data[start + 7] != _MINUS or data[start + 10] != _SPACE:
        return False
    if zone:
        if data[end - 3] != _PLUS or data[end - 2] != ZERO or data[end - 1] != ZERO:
            return False
        end -= 3
    writer.append(_QUOTE)
    between: i64 = len(writer) + 10
    copy(writer, data, start, end)
    writer[between] = _T
    writer.write(b'Z"' if zone else b'"')
    return True


def epoch_days(value: bytes) -> bytes:
    """A date as days since 1970-01-01, from ``2026-11-20`` or ``0044-03-15 BC``."""
    return _infinity(value) if is_infinite(value, 0, len(value)) else b"%d" % days(value, 0, len(value))


def epoch_micros(value: bytes) -> bytes:
    """A timestamp as microseconds since 1970-01-01 00:00, from ``2026-11-20 14:54:02.343135``."""
    return _infinity(value) if is_infinite(value, 0, len(value)) else b"%d" % micros(value, 0, len(value))


def micros_of_day(value: bytes) -> bytes:
    """A time as microseconds since midnight, from ``14:54:02.343135``; 24:00:00 gives a whole day's."""
    return b"%d" % day_micros(value, 0, len(value))


def micros_of_utc_day(value: bytes) -> bytes:
    """A timetz as microseconds since midnight UTC, from ``14:54:02.343135+02`` or ``…-03:30:15``.

    Shifting to UTC wraps around midnight; only a 24:00:00 that is in UTC already stays a whole day.
    """
    return b"%d" % utc_day_micros(value)


def utc_day_micros(value: bytes) -> int:
    """What `micros_of_utc_day` writes."""
    at = max(value.rfind(b"+"), value.rfind(b"-"))
    if at < 0:
        raise invalid_value(value, "a timetz as Postgres prints it")
    local = day_micros(value, 0, at)
    offset = _offset(value[at + 1 :])
    if offset == 0:
        return local
    east = value[at] == _PLUS
    return (local - offset if east else local + offset) % DAY_US


def _infinity(value: bytes) -> bytes:
    """infinity and -infinity, as strings. Raises ValueError on anything else."""
    if value in (b"infinity", b"-infinity"):
        return b'"' + value + b'"'
    raise invalid_value(value, "a date or time as Postgres prints it in ISO style and UTC")


def is_infinite(data: bytes, start: i64, end: i64) -> bool:
    """Whether the date or timestamp `data[start:end]` is infinity or -infinity: no other ends in a y."""
    return end > start and data[end - 1] == _Y


def days(data: bytes, start: i64, end: i64) -> i64:
    """Days since 1970-01-01 of `data[start:end]`, ``2026-11-20`` or ``0044-03-15 BC``."""
    bc = _is_bc(data, start, end)
    return _days(data, start, end - 3 if bc else end, bc)


def micros(data: bytes, start: i64, end: i64) -> int:
    """Microseconds since 1970-01-01 00:00 of `data[start:end]`, a timestamp, or a timestamptz in UTC.

    Not every timestamp of Postgres fits in 64 bits: counted from 1970, they end in the year 294247.
    """
    bc = _is_bc(data, start, end)
    last: i64 = end - 3 if bc else end
    if last - start > 3 and data[last - 3] == _PLUS and data[last - 2] == ZERO and data[last - 1] == ZERO:
        last -= 3
    space: i64 = start + 10
    while space < last and data[space] != _SPACE:
        space += 1
    if space >= last:
        raise invalid_value(data[start:end], "a timestamp as Postgres prints it in ISO style and UTC")
    day = _days(data, start, space, bc)
    within_day = day_micros(data, space + 1, last)
    if -_SAFE_DAYS < day < _SAFE_DAYS:
        return day * DAY_US + within_day
    large: int = day
    rest: int = within_day
    return large * DAY_US + rest


def _is_bc(data: bytes, start: i64, end: i64) -> bool:
    """Whether `data[start:end]` ends in `` BC``."""
    return end - start > 3 and data[end - 1] == _C and data[end - 2] == _B and data[end - 3] == _SPACE


def _days(data: bytes, start: i64, end: i64, bc: bool) -> i64:
    """Days since 1970-01-01 of the date `data[start:end]`; the year has four digits or more."""
    if end - start < 10 or data[end - 6] != _MINUS or data[end - 3] != _MINUS:
        raise invalid_value(data[start:end], "a date as Postgres prints it in ISO style")
    year = number(data, start, end - 6)
    month = number(data, end - 5, end - 3)
    day = number(data, end - 2, end)
    if month < 1 or month > 12 or day < 1 or day > 31:
        raise invalid_value(data[start:end], "a date")
    return days_from_civil(1 - year if bc else year, month, day)


def day_micros(data: bytes, start: i64, end: i64) -> i64:
    """Microseconds of `data[start:end]`, ``14:54:02`` with no fraction or one of up to six digits."""
    size = end - start
    if size < 8 or size == 9 or size > 15 or data[start + 2] != _COLON or data[start + 5] != _COLON:
        raise invalid_value(data[start:end], "a time as Postgres prints it")
    seconds = (number(data, start, start + 2) * 60 + number(data, start + 3, start + 5)) * 60
    seconds += number(data, start + 6, start + 8)
    if size == 8:
        return seconds * 1_000_000
    if data[start + 8] != _POINT:
        raise invalid_value(data[start:end], "a time as Postgres prints it")
    fraction = number(data, start + 9, end)
    for _ in range(15 - size):
        fraction *= 10
    return seconds * 1_000_000 + fraction


def _offset(zone: bytes) -> int:
    """Microseconds of a timetz's zone without its sign: ``02``, ``05:30``, ``03:30:15``."""
    if len(zone) not in (2, 5, 8):
        raise invalid_value(zone, "an offset from UTC as Postgres prints one")
    seconds = int(zone[:2]) * 3600
    if len(zone) > 2:
        seconds += int(zone[3:5]) * 60
    if len(zone) > 5:
        seconds += int(zone[6:])
    return seconds * 1_000_000
