"""The Avro type of every Postgres type, and its values read back by fastavro."""

import json
import struct
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgrelay.encode import oids
from pgrelay.encode.avro.kinds import Schema
from pgrelay.encode.avro.types import avro_binary_encoding, avro_text_encoding
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.encode.values.floats import float4_text
from tests.encode.decoded_avro import whole_value
from tests.encode.json_values import ALL_CHOICES, DEFAULTS, built_in, from_text, numeric_typmod

HSTORE = ColumnType(50_000, "hstore")
MOOD = ColumnType(50_001, "mood", typtype="e")
DOUBLES = Encodings(numeric="double")


def numeric(precision: int, scale: int) -> ColumnType:
    return built_in(oids.NUMERIC, numeric_typmod(precision, scale))


def array_type(oid: int, typmod: int = -1) -> ColumnType:
    """The array type whose elements have that OID."""
    for array in range(1000, 7000):
        found = builtin_type(array, typmod)
        if found is not None and found.is_array and found.element is not None and found.element.oid == oid:
            return found
    raise AssertionError(f"no array of {oid}")


def read(column: ColumnType, text: bytes, choices: Encodings = DEFAULTS, dimensions: int = 1) -> Any:
    """A value that came as text, read back by fastavro."""
    of = avro_text_encoding(column, choices, dimensions)
    return whole_value(of.schema, of.encode(text))


def schema(column: ColumnType, choices: Encodings = DEFAULTS) -> Schema:
    return avro_text_encoding(column, choices).schema


@pytest.mark.parametrize(
    ("oid", "text", "value"),
    [
        (oids.BOOL, b"t", True),
        (oids.BOOL, b"f", False),
        (oids.INT2, b"-32768", -32768),
        (oids.INT4, b"2147483647", 2**31 - 1),
        (oids.INT8, b"-9223372036854775808", -(2**63)),
        (oids.INT8, b"9223372036854775807", 2**63 - 1),
        (oids.OID, b"4294967295", 2**32 - 1),
        (oids.FLOAT8, b"1.7976931348623157e+308", 1.7976931348623157e308),
        (oids.FLOAT8, b"-Infinity", -float("inf")),
        (oids.FLOAT4, b"0.1", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (oids.FLOAT4, b"3.4028235e+38", struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]),
        (oids.NUMERIC, b"12345678901234567890.10", "12345678901234567890.10"),
        (oids.NUMERIC, b"NaN", "NaN"),
        (oids.MONEY, b"-$1,234.56", "-1234.56"),
        (oids.TEXT, 'é\n"\\'.encode(), 'é\n"\\'),
        (oids.TEXT, b"", ""),
        (oids.CHAR, b"\xc3", "\\303"),
        (oids.JSONB, b'{"a": 1}', '{"a": 1}'),
        (oids.BYTEA, b"\\x00ff5c", b"\x00\xff\\"),
        (oids.DATE, b"2026-11-20", date(2026, 11, 20)),
        (oids.DATE, b"0001-01-01", date(1, 1, 1)),
        (oids.TIMESTAMP, b"2026-11-20 14:54:02.343135", datetime(2026, 11, 20, 14, 54, 2, 343135)),
        (oids.TIMESTAMPTZ, b"1969-12-31 23:59:59.999999+00", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (oids.TIMESTAMPTZ, b"2026-11-20 14:54:02+00", datetime(2026, 11, 20, 14, 54, 2, tzinfo=UTC)),
        (oids.TIME, b"14:54:02.5", time(14, 54, 2, 500_000)),
        (oids.TIMETZ, b"14:54:02.5+02", "14:54:02.5+02"),
        (oids.INTERVAL, b"P1Y2M3DT4H5M6.7S", "P1Y2M3DT4H5M6.7S"),
        (oids.INET, b"10.0.0.1/8", "10.0.0.1/8"),
        (oids.PG_LSN, b"16/B374D848", "16/B374D848"),
        (3904, b"[1,5)", "[1,5)"),
    ],
)
def test_a_value_reads_back(oid: int, text: bytes, value: Any) -> None:
    assert read(built_in(oid), text) == value


def test_a_uuid_reads_back() -> None:
    text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert str(read(built_in(oids.UUID), text.encode())) == text
    assert schema(built_in(oids.UUID)) == {"type": "string", "logicalType": "uuid"}


def test_an_enum_is_a_string() -> None:
    assert read(MOOD, b"sad") == "sad"


def test_a_timestamp_has_no_zone_and_a_timestamptz_is_an_instant() -> None:
    assert schema(built_in(oids.TIMESTAMP)) == {"type": "long", "logicalType": "local-timestamp-micros"}
    assert schema(built_in(oids.TIMESTAMPTZ)) == {"type": "long", "logicalType": "timestamp-micros"}


def test_with_debezium_times_a_timetz_is_in_utc() -> None:
    assert read(built_in(oids.TIMETZ), b"01:00:00+02", Encodings(time="debezium")) == time(23)


def test_with_debezium_times_a_timetz_of_24_hours_is_refused() -> None:
    with pytest.raises(ValueError, match="holds"):
        read(built_in(oids.TIMETZ), b"24:00:00+00", Encodings(time="debezium"))


@pytest.mark.parametrize("choices", ALL_CHOICES)
@pytest.mark.parametrize("oid", [oids.TEXT, oids.JSON, oids.JSONB, oids.INTERVAL, oids.BIT])
def test_text_is_text_under_every_choice(oid: int, choices: Encodings) -> None:
    assert read(built_in(oid), b"[1]", choices) == "[1]"


@pytest.mark.parametrize(
    ("precision", "scale", "avro"),
    [(10, 2, (10, 2)), (5, 0, (5, 0)), (5, -2, (7, 0)), (3, 5, (5, 5)), (1000, 0, (1000, 0))],
)
def test_a_declared_numeric_is_an_avro_decimal(precision: int, scale: int, avro: tuple[int, int]) -> None:
    wanted = {"type": "bytes", "logicalType": "decimal", "precision": avro[0], "scale": avro[1]}
    assert schema(numeric(precision, scale)) == wanted


@given(st.integers(1, 40), st.integers(-20, 40), st.data())
def test_decimals_read_back(precision: int, scale: int, data: st.DataObject) -> None:
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Decimal(unscaled).scaleb(-scale) if unscaled else Decimal(0)
    text = f"{value:f}".encode()
    assert read(numeric(precision, scale), text) == Decimal(text.decode())


def test_with_numeric_double_a_numeric_is_a_double() -> None:
    assert schema(numeric(10, 2), DOUBLES) == schema(built_in(oids.NUMERIC), DOUBLES) == "double"
    assert read(numeric(10, 2), b"1.50", DOUBLES) == 1.5
    assert str(read(numeric(10, 2), b"NaN", DOUBLES)) == "nan"


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (numeric(10, 2), b"NaN"),
        (built_in(oids.DATE), b"infinity"),
        (built_in(oids.TIMESTAMP), b"-infinity"),
        (built_in(oids.TIMESTAMPTZ), b"infinity"),
        (built_in(oids.TIMESTAMP), b"294276-12-31 23:59:59.999999"),
        (built_in(oids.TIME), b"24:00:00"),
        (built_in(oids.BOOL), b"true"),
        (built_in(oids.INT4), b""),
        (built_in(oids.INT4), b"-"),
        (built_in(oids.INT4), b"1_0"),
        (built_in(oids.INT8), b"9223372036854775808"),
        (built_in(oids.INT8), b"1234567890123456789x"),
        (built_in(oids.FLOAT8), b"1_0"),
        (built_in(oids.FLOAT4), b"1e+39"),
        (built_in(oids.BYTEA), b"abc"),
        (built_in(oids.DATE), b"2026-13-01"),
        (built_in(1007), b"{1,{2}}"),
        (built_in(1007), b"{1"),
        (HSTORE, b'"a"=>'),
    ],
)
def test_a_value_that_the_type_can_not_hold_is_refused(column: ColumnType, text: bytes) -> None:
    with pytest.raises(ValueError, match=r"is not|dimensions"):
        read(column, text)


def test_a_numeric_too_large_for_a_double_is_refused() -> None:
    with pytest.raises(ValueError, match="a double holds"):
        read(built_in(oids.NUMERIC), b"1" + b"0" * 400, DOUBLES)


def test_with_checked_text_invalid_utf8_is_refused() -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        read(built_in(oids.TEXT), b"\xff", Encodings(validate_utf8=True))


@given(st.floats(width=32, allow_nan=False))
@example(2.0**-149)
def test_reals_read_back(value: float) -> None:
    assert read(built_in(oids.FLOAT4), float4_text(value)) == value


def test_a_real_is_not_rounded_twice() -> None:
    # Its double is midway between two floats, and the even one is farther from the decimal.
    assert struct.pack("<f", read(built_in(oids.FLOAT4), b"7.038531e-26")).hex() == "fd43ae15"


@given(st.dates())
def test_dates_read_back(value: date) -> None:
    assert read(built_in(oids.DATE), value.isoformat().encode()) == value


@given(st.datetimes())
def test_timestamps_read_back(value: datetime) -> None:
    text = value.isoformat(" ").encode()
    assert read(built_in(oids.TIMESTAMP), text) == value
    assert read(built_in(oids.TIMESTAMPTZ), text + b"+00") == value.replace(tzinfo=UTC)


def test_dates_outside_pythons_range_equal_json_days() -> None:
    of = avro_text_encoding(built_in(oids.DATE), DEFAULTS)
    days = [whole_value("int", of.encode(text)) for text in (b"0044-03-15 BC", b"5874897-12-31")]
    json_days = [
        json.loads(from_text(built_in(oids.DATE), text, Encodings(time="debezium")))
        for text in (b"0044-03-15 BC", b"5874897-12-31")
    ]
    assert days == json_days


# --- Arrays and hstore


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"{}", []),
        (b"{1,2,NULL,-4}", [1, 2, None, -4]),
        (b"[0:1]={1,2}", [1, 2]),
    ],
)
def test_an_array_has_nullable_elements(text: bytes, value: Any) -> None:
    assert read(built_in(1007), text) == value
    assert schema(built_in(1007)) == {"type": "array", "items": ["null", "int"]}


def test_an_array_of_decimals_keeps_their_precision() -> None:
    amounts = array_type(oids.NUMERIC, numeric_typmod(10, 2))
    assert read(amounts, b"{1.50,NULL}") == [Decimal("1.50"), None]


def test_elements_of_a_text_array_are_unquoted() -> None:
    assert read(built_in(1009), b'{a,"b,c","",NULL,"NULL","{"}') == ["a", "b,c", "", None, "NULL", "{"]


def test_an_array_has_its_declared_dimensions() -> None:
    assert read(built_in(1007), b"{{1,2},{3,NULL}}", dimensions=2) == [[1, 2], [3, None]]
    assert read(built_in(1007), b"{}", dimensions=2) == []
    wanted = {"type": "array", "items": {"type": "array", "items": ["null", "int"]}}
    assert avro_text_encoding(built_in(1007), DEFAULTS, 2).schema == wanted


def test_elements_of_a_domain_have_the_domains_dimensions() -> None:
    board = replace(built_in(1007), dimensions=2)
    boards = ColumnType(50_003, "_board", element=board)
    assert read(boards, b'{"{{1,2},{3,4}}",NULL}') == [[[1, 2], [3, 4]], None]
    assert avro_text_encoding(boards, DEFAULTS).name == "array<array<array<int>>>"
    with pytest.raises(ValueError, match=r"the array has 1 dimensions"):
        read(boards, b'{"{1,2}"}')


@pytest.mark.parametrize(("text", "dimensions"), [(b"{{1}}", 1), (b"{1}", 2), (b"{{{1}}}", 2)])
def test_an_array_with_other_dimensions_than_declared_is_refused(text: bytes, dimensions: int) -> None:
    with pytest.raises(ValueError, match=r"the array has \d dimensions"):
        read(built_in(1007), text, dimensions=dimensions)


def test_a_quoted_brace_is_no_dimension() -> None:
    assert read(built_in(1009), b'{"{"}') == ["{"]


def test_an_hstore_is_a_map() -> None:
    assert read(HSTORE, b'"a"=>"1", "b"=>NULL, "c\\"d"=>""') == {"a": "1", "b": None, 'c"d': ""}
    assert read(HSTORE, b"") == {}
    assert schema(HSTORE) == {"type": "map", "values": ["null", "string"]}


# --- Binary


@pytest.mark.parametrize(
    ("column", "binary", "value"),
    [
        (built_in(oids.INT4), struct.pack("!i", -7), -7),
        (built_in(oids.BOOL), b"\1", True),
        (built_in(oids.TEXT), b"abc", "abc"),
        (built_in(oids.BYTEA), b"\0\xff", b"\0\xff"),
        (built_in(oids.FLOAT4), struct.pack("!f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (built_in(oids.JSONB), b"\x01[1]", "[1]"),
        (built_in(oids.DATE), struct.pack("!i", 0), date(2000, 1, 1)),
        (built_in(oids.TIMESTAMPTZ), struct.pack("!q", 1), datetime(2000, 1, 1, 0, 0, 0, 1, UTC)),
        (MOOD, b"sad", "sad"),
        (built_in(1007), struct.pack("!iiiiiiii", 1, 1, 23, 2, 1, 4, 5, -1), [5, None]),
        (HSTORE, struct.pack("!iisiisi", 2, 1, b"a", -1, 1, b"b", 0), {"a": None, "b": ""}),
    ],
)
def test_a_binary_value_reads_back(column: ColumnType, binary: bytes, value: Any) -> None:
    how = avro_binary_encoding(column, DEFAULTS)
    assert how is not None
    of = avro_text_encoding(column, DEFAULTS)
    assert (how.schema, how.name) == (of.schema, of.name)
    assert whole_value(of.schema, how.encode(binary)) == value


def test_a_binary_array_with_other_dimensions_than_declared_is_refused() -> None:
    how = avro_binary_encoding(built_in(1007), DEFAULTS)
    assert how is not None
    assert how.convert is not None
    nested = struct.pack("!iiiiiiiii", 2, 0, 23, 1, 1, 1, 1, 4, 5)
    with pytest.raises(ValueError, match="the array has 2 dimensions"):
        how.convert(nested)


def test_an_unknown_binary_form_has_no_type() -> None:
    assert avro_binary_encoding(ColumnType(50_002, "point3", typtype="c"), DEFAULTS) is None
    unknown = ColumnType(50_003, "_point3", element=ColumnType(50_002, "point3", typtype="c"))
    assert avro_binary_encoding(unknown, DEFAULTS) is None


def test_a_binary_hstore_is_not_read_if_the_server_converts_text() -> None:
    assert avro_binary_encoding(HSTORE, DEFAULTS) is not None
    assert avro_binary_encoding(HSTORE, Encodings(server_transcodes=True)) is None
