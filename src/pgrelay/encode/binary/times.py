"""Postgres's text for dates and times that come in binary: ISO styles, UTC.

On the wire, days and microseconds count from 2000-01-01. The largest and the smallest integer mean infinity
and -infinity.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.binary.fields import int32, int64, require_size
from pgrelay.encode.values.civil import DAY_US, civil_from_days
from pgrelay.encode.values.plain import write_digits, write_number

_SPACE: Final[u8] = ord(" ")
_DASH: Final[u8] = ord("-")
_COLON: Final[u8] = ord(":")

_EPOCH_DAYS: Final = 10_957  # from 1970-01-01 to 2000-01-01
_I32_MAX: Final = 2**31 - 1
_I32_MIN: Final = -(2**31)
_I64_MAX: Final = 2**63 - 1
_I64_MIN: Final = -(2**63)


def date_text(value: bytes) -> bytes:
    """Int32 days."""
    days = int32(require_size(value, 4), 0)
    if days == _I32_MAX:
        return b"infinity"
    if days == _I32_MIN:
        return b"-infinity"
    writer = BytesWriter()
    writer.write(_write_date(writer, days))
    return writer.getvalue()


def timestamp_text(value: bytes) -> bytes:
    """Int64 microseconds."""
    return _timestamp(int64(require_size(value, 8), 0), b"")


def timestamptz_text(value: bytes) -> bytes:
    """Int64 microseconds, in UTC whatever the session's zone."""
    return _timestamp(int64(require_size(value, 8), 0), b"+00")


def time_text(value: bytes) -> bytes:
    """Int64 microseconds since midnight."""
    return _time(require_size(value, 8), b"")


def timetz_text(value: bytes) -> bytes:
    """Int64 microseconds since midnight, Int32 seconds west of UTC."""
    west: int = int32(require_size(value, 12), 8)
    minutes, seconds = divmod(abs(west), 60)
    zone = b"%b%02d" % (b"-" if west > 0 else b"+", minutes // 60)
    if minutes % 60 or seconds:
        zone += b":%02d" % (minutes % 60)
    if seconds:
        zone += b":%02d" % seconds
    return _time(value, zone)


def interval_text(value: bytes) -> bytes:
    """Int64 microseconds, Int32 days, Int32 months; as IntervalStyle iso_8601 prints them.

    If all three are at their largest or smallest, that is PostgreSQL 17's infinity or -infinity. Up to 16 the
    same bytes were 178,956,970 years and more; only that value reads differently in text.
    """
    micros: int = int64(require_size(value, 16), 0)
    days: int = int32(value, 8)
    months: int = int32(value, 12)
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


def _time(value: bytes, zone: bytes) -> bytes:
    writer = BytesWriter()
    _write_time(writer, int64(value, 0))
    writer.write(zone)
    return writer.getvalue()


def _timestamp(micros: i64, zone: bytes) -> bytes:
    if micros == _I64_MAX:
        return b"infinity"
    if micros == _I64_MIN:
        return b"-infinity"
    writer = BytesWriter()
    days = micros // DAY_US
    era = _write_date(writer, days)
    writer.append(_SPACE)
    _write_time(writer, micros - days * DAY_US)
    writer.write(zone + era)
    return writer.getvalue()


def _write_date(writer: BytesWriter, days: i64) -> bytes:
    """Append ``2026-11-20``, and return what ends the text: `` BC`` for the years before Christ."""
    year, month, day = civil_from_days(days + _EPOCH_DAYS)
    shown = year if year > 0 else 1 - year
    if shown < 10_000:
        write_digits(writer, shown, 4)
    else:
        write_number(writer, shown)
    writer.append(_DASH)
    write_digits(writer, month, 2)
    writer.append(_DASH)
    write_digits(writer, day, 2)
    return b"" if year > 0 else b" BC"


def _write_time(writer: BytesWriter, micros: i64) -> None:
    """Append ``14:54:02`` and, if there is one, the fraction without its trailing zeros."""
    if micros < 0 or micros > DAY_US:
        raise ValueError(f"{micros} microseconds are not a time of day")
    seconds = micros // 1_000_000
    write_digits(writer, seconds // 3600, 2)
    writer.append(_COLON)
    write_digits(writer, seconds // 60 % 60, 2)
    writer.append(_COLON)
    write_digits(writer, seconds % 60, 2)
    writer.write(_fraction(micros % 1_000_000))


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


def _fraction(micros: i64) -> bytes:
    return (b".%06d" % micros).rstrip(b"0") if micros else b""
