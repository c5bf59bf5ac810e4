"""JSON forms of dates and times, from text, in both styles."""

import json
from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.json_value import QUOTED
from pgrelay.encode.values.temporal import iso_timestamp, iso_timestamptz, write_timestamp
from pgrelay.encode.values.text import text_encoding
from tests.encode.json_values import DEFAULTS, built_in, from_text

ISO = DEFAULTS
DEBEZIUM = Encodings(time="debezium")

DATE = built_in(1082)
TIME = built_in(1083)
TIMETZ = built_in(1266)
TIMESTAMP = built_in(1114)
TIMESTAMPTZ = built_in(1184)
INTERVAL = built_in(1186)

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


class TestIso:
    @pytest.mark.parametrize(
        "value", [b"2026-11-20", b"0044-03-15 BC", b"5874897-12-31", b"infinity", b"-infinity"]
    )
    def test_a_date_keeps_postgress_text(self, value: bytes) -> None:
        assert from_text(DATE, value) == b'"' + value + b'"'

    @pytest.mark.parametrize(
        ("value", "iso"),
        [
            (b"2026-11-20 14:54:02.343135", b"2026-11-20T14:54:02.343135"),
            (b"2026-11-20 00:00:00", b"2026-11-20T00:00:00"),
            (b"0044-03-15 12:00:00 BC", b"0044-03-15T12:00:00 BC"),
            (b"294276-12-31 23:59:59.999999", b"294276-12-31T23:59:59.999999"),
            (b"infinity", b"infinity"),
            (b"-infinity", b"-infinity"),
        ],
    )
    def test_a_timestamp_has_no_zone(self, value: bytes, iso: bytes) -> None:
        assert from_text(TIMESTAMP, value) == b'"' + iso + b'"'

    @pytest.mark.parametrize("choices", [ISO, DEBEZIUM])
    @pytest.mark.parametrize(
        ("value", "iso"),
        [
            (b"2026-11-20 14:54:02.343135+00", b"2026-11-20T14:54:02.343135Z"),
            (b"0044-03-15 12:00:00+00 BC", b"0044-03-15T12:00:00Z BC"),
            (b"294276-12-31 23:59:59.999999+00", b"294276-12-31T23:59:59.999999Z"),
            (b"infinity", b"infinity"),
            (b"-infinity", b"-infinity"),
        ],
    )
    def test_a_timestamptz_is_utc_in_both_styles(self, choices: Encodings, value: bytes, iso: bytes) -> None:
        assert from_text(TIMESTAMPTZ, value, choices) == b'"' + iso + b'"'

    @pytest.mark.parametrize("value", [b"14:54:02.343135", b"00:00:00", b"24:00:00"])
    def test_a_time_keeps_postgress_text(self, value: bytes) -> None:
        assert from_text(TIME, value) == b'"' + value + b'"'

    @pytest.mark.parametrize("value", [b"14:54:02.343135+02", b"12:00:00-03:30:15", b"24:00:00+00"])
    def test_a_timetz_keeps_its_offset(self, value: bytes) -> None:
        assert from_text(TIMETZ, value) == b'"' + value + b'"'

    @pytest.mark.parametrize("choices", [ISO, DEBEZIUM])
    @pytest.mark.parametrize("value", [b"P1Y2M3DT4H5M6.7S", b"PT0S", b"P-1Y-8M", b"infinity"])
    def test_an_interval_is_iso_8601_in_both_styles(self, choices: Encodings, value: bytes) -> None:
        assert from_text(INTERVAL, value, choices) == b'"' + value + b'"'

    @pytest.mark.parametrize(
        "value",
        [b"", b"2026-11-20", b"20.11.2026 14:54:02", b"11/20/2026 14:54:02", b"Fri Nov 20 14:54:02 2026"],
    )
    def test_a_timestamp_in_another_datestyle_is_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match="ISO style and UTC"):
            from_text(TIMESTAMP, value)

    @pytest.mark.parametrize(
        "value", [b"2026-11-20 14:54:02", b"2026-11-20 14:54:02+02", b"20.11.2026 14:54:02+00", b"", b"now"]
    )
    def test_a_timestamptz_in_another_zone_is_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match="ISO style and UTC"):
            from_text(TIMESTAMPTZ, value)


class TestDebezium:
    @pytest.mark.parametrize(
        ("value", "days"),
        [
            (b"1970-01-01", b"0"),
            (b"1969-12-31", b"-1"),
            (b"0001-01-01", b"-719162"),
            (b"0001-12-31 BC", b"-719163"),
            (b"4714-11-24 BC", b"-2440588"),
            (b"5874897-12-31", b"2145042905"),
            (b"infinity", b'"infinity"'),
            (b"-infinity", b'"-infinity"'),
        ],
    )
    def test_a_date_is_days_since_1970(self, value: bytes, days: bytes) -> None:
        assert from_text(DATE, value, DEBEZIUM) == days

    @pytest.mark.parametrize(
        ("value", "micros"),
        [
            (b"1970-01-01 00:00:00", b"0"),
            (b"1969-12-31 23:59:59.999999", b"-1"),
            (b"2026-11-20 14:54:02.5", b"1795186442500000"),
            (b"0044-03-15 12:00:00 BC", b"-63517780800000000"),
            (b"4714-11-24 00:00:00 BC", b"-210866803200000000"),
            (b"294276-12-31 23:59:59.999999", b"9224318015999999999"),  # past 2^63: no 64-bit overflow here
            (b"infinity", b'"infinity"'),
            (b"-infinity", b'"-infinity"'),
        ],
    )
    def test_a_timestamp_is_microseconds_since_1970(self, value: bytes, micros: bytes) -> None:
        assert from_text(TIMESTAMP, value, DEBEZIUM) == micros

    @pytest.mark.parametrize(
        ("value", "micros"),
        [
            (b"00:00:00", b"0"),
            (b"00:00:00.000001", b"1"),
            (b"23:59:59.5", b"86399500000"),
            (b"24:00:00", b"86400000000"),
        ],
    )
    def test_a_time_is_microseconds_since_midnight(self, value: bytes, micros: bytes) -> None:
        assert from_text(TIME, value, DEBEZIUM) == micros

    @pytest.mark.parametrize(
        ("value", "micros"),
        [
            (b"14:00:00+02", 12 * 3_600_000_000),
            (b"01:00:00+02", 23 * 3_600_000_000),  # the day before, in UTC
            (b"23:00:00-02", 1 * 3_600_000_000),  # the day after
            (b"12:00:00.000001+05:30", 6 * 3_600_000_000 + 30 * 60_000_000 + 1),
            (b"12:00:00-03:30:15", 15 * 3_600_000_000 + 30 * 60_000_000 + 15_000_000),
            (b"24:00:00+00", 86_400_000_000),
            (b"24:00:00+02", 22 * 3_600_000_000),
        ],
    )
    def test_a_timetz_is_shifted_to_utc_within_its_day(self, value: bytes, micros: int) -> None:
        assert from_text(TIMETZ, value, DEBEZIUM) == b"%d" % micros

    @given(st.dates())
    def test_days_agree_with_datetime(self, day: date) -> None:
        days = int(from_text(DATE, day.isoformat().encode(), DEBEZIUM))
        assert date(1970, 1, 1) + timedelta(days) == day

    @given(st.datetimes())
    def test_microseconds_agree_with_datetime(self, moment: datetime) -> None:
        micros = int(from_text(TIMESTAMP, str(moment).encode(), DEBEZIUM))
        assert EPOCH + micros * MICROSECOND == moment

    @given(st.times(), st.integers(-15 * 60 - 59, 15 * 60 + 59))
    def test_shifting_agrees_with_datetime(self, local: time, minutes_east: int) -> None:
        moment = datetime.combine(date(2000, 1, 2), local, timezone(timedelta(minutes=minutes_east)))
        utc = moment.astimezone(UTC)
        value = moment.isoformat().partition("T")[2].encode()
        assert int(from_text(TIMETZ, value, DEBEZIUM)) == (
            timedelta(hours=utc.hour, minutes=utc.minute, seconds=utc.second, microseconds=utc.microsecond)
            // MICROSECOND
        )

    @pytest.mark.parametrize(
        "value", [b"", b"today", b"20.11.2026", b"11/20/2026", b"2026-13-01", b"2026-00-00"]
    )
    def test_text_that_is_no_date_is_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match=r"is not a date|invalid literal"):
            from_text(DATE, value, DEBEZIUM)

    @pytest.mark.parametrize(
        "value", [b"", b"2026-11-20", b"20.11.2026 14:54:02", b"2026-11-20 14:54", b"infinitely"]
    )
    def test_text_that_is_no_timestamp_is_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match=r"is not a (date|time)"):
            from_text(TIMESTAMP, value, DEBEZIUM)

    @pytest.mark.parametrize(
        "value", [b"", b"14:54", b"14.54.02", b"14:54:02,5", b"14:54:02.1234567", b"2:54:02 PM"]
    )
    def test_text_that_is_no_time_is_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match="is not a time"):
            from_text(TIME, value, DEBEZIUM)

    @pytest.mark.parametrize("value", [b"", b"14:54:02", b"14:54:02+2", b"14:54:02+02:00:00:00", b"14:54+02"])
    def test_text_that_is_no_timetz_is_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match=r"is not a time|is not an offset"):
            from_text(TIMETZ, value, DEBEZIUM)


@pytest.mark.parametrize(
    ("oid", "iso", "debezium"),
    [
        (1082, "iso-date", "epoch-days"),
        (1083, "iso-time", "micros"),
        (1266, "iso-time", "micros"),
        (1114, "iso-timestamp", "micros"),
        (1184, "iso-timestamp", "iso-timestamp"),
        (1186, "iso-duration", "iso-duration"),
    ],
)
def test_each_style_has_its_encodings_names(oid: int, iso: str, debezium: str) -> None:
    assert text_encoding(built_in(oid), ISO).name == iso
    assert text_encoding(built_in(oid), DEBEZIUM).name == debezium


@pytest.mark.parametrize("column", [DATE, TIME, TIMETZ, INTERVAL])
def test_types_with_unchanged_text_are_copied_between_quotes(column: ColumnType) -> None:
    assert text_encoding(column, ISO).kind == QUOTED


@given(st.datetimes())
def test_iso_reads_back_with_datetime(moment: datetime) -> None:
    text = json.loads(from_text(TIMESTAMP, str(moment).encode()))
    assert datetime.fromisoformat(text) == moment


class TestWriteTimestamp:
    """The per-row loop itself writes usual timestamps."""

    @given(st.datetimes(), st.booleans(), st.sampled_from(["", " BC"]), st.booleans())
    def test_writes_the_same_as_the_encoding(
        self, at: datetime, zone: bool, era: str, wrong_zone: bool
    ) -> None:
        printed = str(at) + ("+00" if zone else "") + era
        value = printed.replace("+00", "-05").encode() if wrong_zone else printed.encode()
        written = self.written(value, zone)
        usual = not (zone and (era or wrong_zone))
        assert (written is not None) == usual
        if written is not None:
            assert written == (iso_timestamptz(value) if zone else iso_timestamp(value))

    @pytest.mark.parametrize("zone", [True, False])
    @pytest.mark.parametrize(
        "value",
        [
            b"",
            b"infinity",
            b"-infinity",
            b"2026-11-20",
            b"2026-11-20+00",
            b"294276-12-31 23:59:59.999999",
            b"294276-12-31 23:59:59.999999+00",
        ],
    )
    def test_leaves_unusual_values_to_the_encoding(self, value: bytes, zone: bool) -> None:
        assert self.written(value, zone) is None

    @pytest.mark.parametrize(
        "value", [b"2026-11-20 14:54:02", b"2026-11-20 14:54:02-05", b"2026-11-20 14:54:02+05:30"]
    )
    def test_leaves_another_zone_to_the_encoding_which_refuses_it(self, value: bytes) -> None:
        assert self.written(value, True) is None
        with pytest.raises(ValueError, match="UTC"):
            iso_timestamptz(value)

    @staticmethod
    def written(value: bytes, zone: bool) -> bytes | None:
        """What the loop writes for the value; None if it is left to the encoding."""
        writer = BytesWriter()
        writer.write(b"before")
        done = write_timestamp(writer, b"row" + value + b"row", 3, 3 + len(value), zone)
        left = writer.getvalue().removeprefix(b"before")
        assert done or left == b""
        return left if done else None
