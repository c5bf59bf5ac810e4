"""JSON forms of dates and times, from Postgres's text under DateStyle ISO and TimeZone UTC.

``iso`` keeps Postgres's digits: ``2026-11-20T14:54:02.343135``, with ``Z`` where the type has a zone. A
year before Christ stays as Postgres writes it, ``0044-03-15T12:00:00Z BC``; so do ``infinity`` and
``-infinity``, in both forms. ``debezium`` counts: days since 1970-01-01, microseconds since then or since
midnight.
"""

from typing import Final

from pgrelay.encode import oids
from pgrelay.encode.civil import days_from_civil
from pgrelay.encode.refusal import refusal
from pgrelay.encode.types import (
    CONVERT,
    EPOCH_DAYS,
    ISO_DATE,
    ISO_DURATION,
    ISO_TIME,
    ISO_TIMESTAMP,
    MICROS,
    QUOTED,
    Encoding,
)

_DAY_US: Final = 86_400_000_000

_PLUS: Final = ord("+")
_MINUS: Final = ord("-")
_COLON: Final = ord(":")


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


def epoch_days(value: bytes) -> bytes:
    """A date as days since 1970-01-01, from ``2026-11-20`` or ``0044-03-15 BC``."""
    if value.endswith(b"y"):
        return _infinity(value)
    if value.endswith(b" BC"):
        return b"%d" % _days(value[:-3], True)
    return b"%d" % _days(value, False)


def epoch_micros(value: bytes) -> bytes:
    """A timestamp as microseconds since 1970-01-01 00:00, from ``2026-11-20 14:54:02.343135``."""
    date, _, time = value.partition(b" ")
    if not time:
        return _infinity(value)
    bc = time.endswith(b" BC")
    if bc:
        time = time[:-3]
    return b"%d" % (_days(date, bc) * _DAY_US + _micros(time))


def micros_of_day(value: bytes) -> bytes:
    """A time as microseconds since midnight, from ``14:54:02.343135``; 24:00:00 is a whole day's."""
    return b"%d" % _micros(value)


def micros_of_utc_day(value: bytes) -> bytes:
    """A timetz as microseconds since midnight UTC, from ``14:54:02.343135+02`` or ``…-03:30:15``.

    Shifting wraps around midnight; only the 24:00:00 that stands in UTC already stays a whole day.
    """
    at = max(value.rfind(b"+"), value.rfind(b"-"))
    if at < 0:
        raise refusal(value, "a timetz as Postgres prints it")
    local = _micros(value[:at])
    offset = _offset(value[at + 1 :])
    if offset == 0:
        return b"%d" % local
    east = value[at] == _PLUS
    return b"%d" % ((local - offset if east else local + offset) % _DAY_US)


def _infinity(value: bytes) -> bytes:
    """The two dates and timestamps without digits, as strings. Raises ValueError on all else."""
    if value in (b"infinity", b"-infinity"):
        return b'"' + value + b'"'
    raise refusal(value, "a date or time as Postgres prints it in ISO style and UTC")


def _days(date: bytes, bc: bool) -> int:
    """Days since 1970-01-01 of ``2026-11-20``; the year has four digits or more."""
    if len(date) < 10 or date[-6] != _MINUS or date[-3] != _MINUS:
        raise refusal(date, "a date as Postgres prints it in ISO style")
    year, month, day = int(date[:-6]), int(date[-5:-3]), int(date[-2:])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise refusal(date, "a date")
    return days_from_civil(1 - year if bc else year, month, day)


def _micros(time: bytes) -> int:
    """Microseconds of ``14:54:02`` with no fraction or one of up to six digits."""
    fraction = time[9:]
    if len(time) < 8 or time[2] != _COLON or time[5] != _COLON:
        raise refusal(time, "a time as Postgres prints it")
    if len(fraction) > 6 or time[8:9] not in (b"", b"."):
        raise refusal(time, "a time as Postgres prints it")
    seconds = (int(time[:2]) * 60 + int(time[3:5])) * 60 + int(time[6:8])
    return seconds * 1_000_000 + (int(fraction.ljust(6, b"0")) if fraction else 0)


def _offset(zone: bytes) -> int:
    """Microseconds of a timetz's zone without its sign: ``02``, ``05:30``, ``03:30:15``."""
    if len(zone) not in (2, 5, 8):
        raise refusal(zone, "an offset from UTC as Postgres prints one")
    seconds = int(zone[:2]) * 3600
    if len(zone) > 2:
        seconds += int(zone[3:5]) * 60
    if len(zone) > 5:
        seconds += int(zone[6:])
    return seconds * 1_000_000


_ISO: Final = {
    oids.DATE: Encoding(QUOTED, ISO_DATE),
    oids.TIMESTAMP: Encoding(CONVERT, ISO_TIMESTAMP, iso_timestamp),
    oids.TIMESTAMPTZ: Encoding(CONVERT, ISO_TIMESTAMP, iso_timestamptz),
    oids.TIME: Encoding(QUOTED, ISO_TIME),
    oids.TIMETZ: Encoding(QUOTED, ISO_TIME),
    oids.INTERVAL: Encoding(QUOTED, ISO_DURATION),
}

_DEBEZIUM: Final = {
    oids.DATE: Encoding(CONVERT, EPOCH_DAYS, epoch_days),
    oids.TIMESTAMP: Encoding(CONVERT, MICROS, epoch_micros),
    oids.TIMESTAMPTZ: _ISO[oids.TIMESTAMPTZ],
    oids.TIME: Encoding(CONVERT, MICROS, micros_of_day),
    oids.TIMETZ: Encoding(CONVERT, MICROS, micros_of_utc_day),
    oids.INTERVAL: _ISO[oids.INTERVAL],
}


def temporal_encoding(choice: str, oid: int) -> Encoding | None:
    """The encoding of a date or time type for the operator's choice; None when the type is another."""
    return (_DEBEZIUM if choice == "debezium" else _ISO).get(oid)
