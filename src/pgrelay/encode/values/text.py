"""JSON encodings of values that come as text, the form that each type's output function prints.

The sessions pin the settings that affect it: DateStyle ISO, IntervalStyle iso_8601, TimeZone UTC,
bytea_output hex, extra_float_digits 3, lc_monetary C, client_encoding UTF8. The table of types in
``docs/records.md`` is the contract.
"""

from binascii import unhexlify
from typing import Final

from pgrelay.encode import oids
from pgrelay.encode.encodings import (
    BASE64,
    BOOLEAN,
    CONVERT,
    DECIMAL_BASE64,
    EPOCH_DAYS,
    HEX,
    INTEGER,
    ISO_DATE,
    ISO_DURATION,
    ISO_TIME,
    ISO_TIMESTAMP,
    JSON,
    MICROS,
    NUMBER,
    OBJECT,
    STRING,
    VARIABLE_DECIMAL,
    Converter,
    Encodings,
    array_of,
)
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.arrays import array_converter
from pgrelay.encode.values.hstore import hstore_converter
from pgrelay.encode.values.json_value import (
    BOOL,
    FLOAT,
    QUOTED,
    RAW,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    JsonEncoding,
    json_base64,
    json_string,
    json_string_checked,
    utf8,
)
from pgrelay.encode.values.numbers import (
    decimal_base64,
    declared_scale,
    json_number,
    money_digits,
    variable_decimal,
)
from pgrelay.encode.values.temporal import (
    epoch_days,
    epoch_micros,
    iso_timestamp,
    iso_timestamptz,
    micros_of_day,
    micros_of_utc_day,
)


def text_encoding(column: ColumnType, choices: Encodings) -> JsonEncoding:
    """The encoding of a column's values that come as text. Every type has one: unknown ones are strings."""
    fixed = _FIXED.get(column.oid) or (_DEBEZIUM if choices.time == "debezium" else _ISO).get(column.oid)
    if fixed is not None:
        return fixed
    if column.oid == oids.NUMERIC:
        return _numeric(choices.numeric, column.typmod)
    if column.oid == oids.BYTEA:
        return _BYTEA_HEX if choices.binary == "hex" else _BYTEA_BASE64
    if column.oid in (oids.JSON, oids.JSONB) and choices.json == "inline":
        return JsonEncoding(CONVERT, JSON, utf8) if choices.validate_utf8 else JsonEncoding(RAW, JSON)
    if column.is_array:
        element = text_encoding(column.element_type(), choices)
        return JsonEncoding(CONVERT, array_of(element.name), array_converter(element, column.delimiter))
    if column.is_hstore:
        return JsonEncoding(CONVERT, OBJECT, hstore_converter(string_converter(choices)))
    return _STRING_CHECKED if choices.validate_utf8 else _STRING


def bytea_base64(value: bytes) -> bytes:
    """A base64 string, from ``\\x`` and hexadecimal digits."""
    return json_base64(bytea(value))


def bytea(value: bytes) -> bytes:
    """The bytes themselves, from ``\\x`` and hexadecimal digits."""
    return unhexlify(_hexadecimal(value))


def bytea_hex(value: bytes) -> bytes:
    """A string of hexadecimal digits, from ``\\x`` and the same."""
    return b'"' + _hexadecimal(value) + b'"'


def single_byte(value: bytes) -> bytes:
    """A string, from `single_byte_text`."""
    return json_string(single_byte_text(value))


def single_byte_text(value: bytes) -> bytes:
    """``"char"``'s text, with a byte past ASCII as ``\\303``, which PostgreSQL 16 introduced.

    Several bytes are what an earlier server makes of such a byte if it converts text from another encoding.
    """
    return b"\\%03o" % value[0] if len(value) == 1 and value > b"\x7f" else value


def _hexadecimal(value: bytes) -> bytes:
    if not value.startswith(b"\\x"):
        raise invalid_value(value, "a bytea as Postgres prints it with bytea_output = hex")
    return value[2:]


def _numeric(choice: str, typmod: int) -> JsonEncoding:
    """The encoding of numeric for the operator's choice and the column's type modifier."""
    if choice == "string":
        return JsonEncoding(QUOTED, STRING)
    if choice == "double":
        return JsonEncoding(FLOAT, NUMBER, json_number)
    if typmod < 0:
        return JsonEncoding(CONVERT, VARIABLE_DECIMAL, variable_decimal)
    return JsonEncoding(CONVERT, DECIMAL_BASE64, decimal_base64(declared_scale(typmod)))


def string_converter(choices: Encodings) -> Converter:
    """A converter from text to a JSON string; it checks for UTF-8 if the choices ask for it."""
    return json_string_checked if choices.validate_utf8 else json_string


_STRING: Final = JsonEncoding(TEXT, STRING)
_STRING_CHECKED: Final = JsonEncoding(CONVERT, STRING, json_string_checked)
_BYTEA_BASE64: Final = JsonEncoding(CONVERT, BASE64, bytea_base64)
_BYTEA_HEX: Final = JsonEncoding(CONVERT, HEX, bytea_hex)

# The types with one form, whatever the operator chose. The QUOTED ones print as digits, letters and
# punctuation other than quotes and backslashes.
_FIXED: Final[dict[int, JsonEncoding]] = {
    oids.BOOL: JsonEncoding(BOOL, BOOLEAN),
    oids.INT2: JsonEncoding(RAW, INTEGER),
    oids.INT4: JsonEncoding(RAW, INTEGER),
    oids.INT8: JsonEncoding(RAW, INTEGER),
    oids.OID: JsonEncoding(RAW, INTEGER),
    oids.FLOAT4: JsonEncoding(FLOAT, NUMBER, json_number),
    oids.FLOAT8: JsonEncoding(FLOAT, NUMBER, json_number),
    oids.MONEY: JsonEncoding(CONVERT, STRING, money_digits),
    oids.CHAR: JsonEncoding(CONVERT, STRING, single_byte),
    **dict.fromkeys(
        (
            *(oids.UUID, oids.BIT, oids.VARBIT, oids.PG_LSN, oids.TID, oids.XID, oids.CID, oids.XID8),
            *(oids.INET, oids.CIDR, oids.MACADDR, oids.MACADDR8, oids.INT2VECTOR, oids.OIDVECTOR),
            *(oids.POINT, oids.LSEG, oids.PATH, oids.BOX, oids.POLYGON, oids.LINE, oids.CIRCLE),
            *(oids.TXID_SNAPSHOT, oids.PG_SNAPSHOT, oids.OID8),
        ),
        JsonEncoding(QUOTED, STRING),
    ),
}

# Dates and times, by the operator's choice.
_ISO: Final = {
    oids.DATE: JsonEncoding(QUOTED, ISO_DATE),
    oids.TIMESTAMP: JsonEncoding(TIMESTAMP, ISO_TIMESTAMP, iso_timestamp),
    oids.TIMESTAMPTZ: JsonEncoding(TIMESTAMPTZ, ISO_TIMESTAMP, iso_timestamptz),
    oids.TIME: JsonEncoding(QUOTED, ISO_TIME),
    oids.TIMETZ: JsonEncoding(QUOTED, ISO_TIME),
    oids.INTERVAL: JsonEncoding(QUOTED, ISO_DURATION),
}

_DEBEZIUM: Final = {
    oids.DATE: JsonEncoding(CONVERT, EPOCH_DAYS, epoch_days),
    oids.TIMESTAMP: JsonEncoding(CONVERT, MICROS, epoch_micros),
    oids.TIMESTAMPTZ: _ISO[oids.TIMESTAMPTZ],
    oids.TIME: JsonEncoding(CONVERT, MICROS, micros_of_day),
    oids.TIMETZ: JsonEncoding(CONVERT, MICROS, micros_of_utc_day),
    oids.INTERVAL: _ISO[oids.INTERVAL],
}
