"""Postgres's text of dates and times in binary."""

import struct
from datetime import date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.binary.times import (
    date_text,
    interval_text,
    time_text,
    timestamp_text,
    timestamptz_text,
    timetz_text,
)
from pgrelay.encode.encodings import Converter

I32_MAX, I32_MIN = 2**31 - 1, -(2**31)
I64_MAX, I64_MIN = 2**63 - 1, -(2**63)
HOUR = 3_600_000_000
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, b"2000-01-01"),
        (-1, b"1999-12-31"),
        (-730_119, b"0001-01-01"),
        (-730_120, b"0001-12-31 BC"),
        (-2_451_545, b"4714-11-24 BC"),
        (2_145_031_948, b"5874897-12-31"),
        (I32_MAX, b"infinity"),
        (I32_MIN, b"-infinity"),
    ],
)
def test_dates(days: int, text: bytes) -> None:
    assert date_text(struct.pack(">i", days)) == text


@pytest.mark.parametrize(
    ("micros", "text", "zone", "era"),
    [
        (0, b"2000-01-01 00:00:00", b"+00", b""),
        (-1, b"1999-12-31 23:59:59.999999", b"+00", b""),
        (500_000, b"2000-01-01 00:00:00.5", b"+00", b""),
        (-211_813_488_000_000_000, b"4714-11-24 00:00:00", b"+00", b" BC"),
        (9_223_371_331_199_999_999, b"294276-12-31 23:59:59.999999", b"+00", b""),
        (I64_MAX, b"infinity", b"", b""),
        (I64_MIN, b"-infinity", b"", b""),
    ],
)
def test_timestamps(micros: int, text: bytes, zone: bytes, era: bytes) -> None:
    assert timestamp_text(struct.pack(">q", micros)) == text + era
    assert timestamptz_text(struct.pack(">q", micros)) == text + zone + era


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, b"00:00:00"),
        (1, b"00:00:00.000001"),
        (14 * HOUR + 343_100, b"14:00:00.3431"),
        (24 * HOUR, b"24:00:00"),
    ],
)
def test_times(micros: int, text: bytes) -> None:
    assert time_text(struct.pack(">q", micros)) == text


@pytest.mark.parametrize(
    ("west", "zone"),
    [
        (0, b"+00"),
        (-7_200, b"+02"),
        (7_200, b"-02"),
        (-19_800, b"+05:30"),
        (12_615, b"-03:30:15"),
        (30, b"-00:00:30"),
        (-57_599, b"+15:59:59"),
    ],
)
def test_timetz(west: int, zone: bytes) -> None:
    assert timetz_text(struct.pack(">qi", 12 * HOUR, west)) == b"12:00:00" + zone


@pytest.mark.parametrize(
    ("months", "days", "micros", "text"),
    [
        (0, 0, 0, b"PT0S"),
        (14, 3, 4 * HOUR + 5 * 60_000_000 + 6_700_000, b"P1Y2M3DT4H5M6.7S"),
        (10, 3, -(4 * HOUR + 5 * 60_000_000 + 6_700_000), b"P10M3DT-4H-5M-6.7S"),
        (-12, 0, 0, b"P-1Y"),
        (-13, 0, 0, b"P-1Y-1M"),
        (0, 0, -500_000, b"PT-0.5S"),
        (0, 0, 100 * HOUR, b"PT100H"),
        (0, -1, 1, b"P-1DT0.000001S"),
        (I32_MAX, 0, 0, b"P178956970Y7M"),
        (I32_MIN, I32_MIN, I64_MIN + 1, b"P-178956970Y-8M-2147483648DT-2562047788H-54.775807S"),
        (I32_MAX, I32_MAX, I64_MAX, b"infinity"),
        (I32_MIN, I32_MIN, I64_MIN, b"-infinity"),
    ],
)
def test_intervals(months: int, days: int, micros: int, text: bytes) -> None:
    assert interval_text(struct.pack(">qii", micros, days, months)) == text


@given(st.dates())
def test_dates_agree_with_datetime(day: date) -> None:
    days = (day - date(2000, 1, 1)).days
    assert date_text(struct.pack(">i", days)) == day.isoformat().encode()


@given(st.datetimes())
def test_timestamps_agree_with_datetime(moment: datetime) -> None:
    micros = (moment - datetime(2000, 1, 1)) // MICROSECOND
    text = timestamp_text(struct.pack(">q", micros)).decode()
    assert datetime.fromisoformat(text.partition(".")[0]) == moment.replace(microsecond=0)
    assert f"{text.partition('.')[2]:0<6}" == f"{moment.microsecond:06}"


@given(st.times())
def test_times_agree_with_datetime(of_day: time) -> None:
    micros = timedelta(
        hours=of_day.hour, minutes=of_day.minute, seconds=of_day.second, microseconds=of_day.microsecond
    )
    text = time_text(struct.pack(">q", micros // MICROSECOND)).decode()
    assert text == (of_day.isoformat().rstrip("0") if of_day.microsecond else of_day.isoformat())


@pytest.mark.parametrize(
    "text", [date_text, time_text, timestamp_text, timestamptz_text, timetz_text, interval_text]
)
@pytest.mark.parametrize("size", [0, 3, 5, 7, 9, 11, 13, 15, 17])
def test_truncated_and_oversized_values_are_refused(text: Converter, size: int) -> None:
    with pytest.raises(ValueError, match="where its binary form has"):
        text(bytes(size))


@pytest.mark.parametrize("micros", [-1, 24 * HOUR + 1])
def test_a_time_outside_of_the_day_is_refused(micros: int) -> None:
    with pytest.raises(ValueError, match="are not a time of day"):
        time_text(struct.pack(">q", micros))
