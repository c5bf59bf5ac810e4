"""Postgres's text for dates and times that come in binary: ISO styles, UTC.

On the wire, days and microseconds count from 2000-01-01. The largest and the smallest integer mean infinity
and -infinity.
"""

from typing import Final

from pgrelay.encode.binary.fields import i32, i64, sized
from pgrelay.encode.values.civil import DAY_US, civil_from_days

_EPOCH_DAYS: Final = 10_957  # from 1970-01-01 to 2000-01-01
_I32_MAX: Final = 2**31 - 1
_I32_MIN: Final = -(2**31)
_I64_MAX: Final = 2**63 - 1
_I64_MIN: Final = -(2**63)


def date_text(value: bytes) -> bytes:
    """Int32 days."""
    days = i32(sized(value, 4), 0)
    if days == _I32_MAX:
        return b"infinity"
    if days == _I32_MIN:
        return b"-infinity"
    date, era = _date(days)
    return date + era


def timestamp_text(value: bytes) -> bytes:
    """Int64 microseconds."""
    return _timestamp(i64(sized(value, 8), 0), b"")


def timestamptz_text(value: bytes) -> bytes:
    """Int64 microseconds, in UTC whatever the session's zone."""
    return _timestamp(i64(sized(value, 8), 0), b"+00")


def time_text(value: bytes) -> bytes:
    """Int64 microseconds since midnight."""
    return _time(i64(sized(value, 8), 0))


def timetz_text(value: bytes) -> bytes:
    """Int64 microseconds since midnight, Int32 seconds west of UTC."""
    west = i32(sized(value, 12), 8)
    minutes, seconds = divmod(abs(west), 60)
    zone = b"%b%02d" % (b"-" if west > 0 else b"+", minutes // 60)
    if minutes % 60 or seconds:
        zone += b":%02d" % (minutes % 60)
    if seconds:
        zone += b":%02d" % seconds
    return _time(i64(value, 0)) + zone


def interval_text(value: bytes) -> bytes:
    """Int64 microseconds, Int32 days, Int32 months; as IntervalStyle iso_8601 prints them.

    If all three are at their largest or smallest, that is PostgreSQL 17's infinity or -infinity. Up to 16 the
    same bytes were 178,956,970 years and more; only that value reads differently in text.
    """
    micros, days, months = i64(sized(value, 16), 0), i32(value, 8), i32(value, 12)
    if micros == _I64_MAX and days == _I32_MAX and months == _I32_MAX:
        return b"infinity"
    if micros == _I64_MIN and days == _I32_MIN and months == _I32_MIN:
        return b"-infinity"
    sign = -1 if months < 0 else 1
    date = (
        _part(sign * (abs(months) // 12), b"Y") + _part(sign * (abs(months) % 12), b"M") + _part(days, b"D")
    )
    if micros:
        return b"P" + date + b"T" + _iso_time(micros)
    return b"P" + date if date else b"PT0S"


def _date(days: int) -> tuple[bytes, bytes]:
    """``2026-11-20`` and, for the years before Christ, the `` BC`` that ends the text."""
    year, month, day = civil_from_days(days + _EPOCH_DAYS)
    if year > 0:
        return b"%04d-%02d-%02d" % (year, month, day), b""
    return b"%04d-%02d-%02d" % (1 - year, month, day), b" BC"


def _time(micros: int) -> bytes:
    """``14:54:02`` and, if there is one, the fraction without its trailing zeros."""
    if not 0 <= micros <= DAY_US:
        raise ValueError(f"{micros} microseconds are not a time of day")
    seconds, fraction = divmod(micros, 1_000_000)
    time = b"%02d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)
    return time + _fraction(fraction)


def _timestamp(micros: int, zone: bytes) -> bytes:
    if micros == _I64_MAX:
        return b"infinity"
    if micros == _I64_MIN:
        return b"-infinity"
    days, of_day = divmod(micros, DAY_US)
    date, era = _date(days)
    return date + b" " + _time(of_day) + zone + era


def _iso_time(micros: int) -> bytes:
    """The hours, minutes and seconds of an interval, each with the sign of the whole: ``-4H-5M-6.7S``."""
    sign = -1 if micros < 0 else 1
    seconds, fraction = divmod(abs(micros), 1_000_000)
    parts = _part(sign * (seconds // 3600), b"H") + _part(sign * (seconds // 60 % 60), b"M")
    if seconds % 60 or fraction:
        parts += b"-" if sign < 0 else b""
        parts += b"%d%bS" % (seconds % 60, _fraction(fraction))
    return parts


def _part(number: int, unit: bytes) -> bytes:
    return b"%d%b" % (number, unit) if number else b""


def _fraction(micros: int) -> bytes:
    return (b".%06d" % micros).rstrip(b"0") if micros else b""
