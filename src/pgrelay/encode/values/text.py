"""JSON encodings of values that come as text, the form that each type's output function prints.

The sessions pin the settings that affect it: DateStyle ISO, IntervalStyle iso_8601, TimeZone UTC,
bytea_output hex, extra_float_digits 3, lc_monetary C, client_encoding UTF8. The table of types in
``docs/records.md`` is the contract.
"""

from binascii import b2a_base64, unhexlify
from typing import Final

from pgrelay.encode import oids
from pgrelay.encode.refusal import refusal
from pgrelay.encode.types import (
    BASE64,
    BOOLEAN,
    CONVERT,
    FLOAT,
    HEX,
    INTEGER,
    JSON,
    NUMBER,
    OBJECT,
    QUOTED,
    RAW,
    STRING,
    TEXT,
    TRUTH,
    ColumnType,
    Converter,
    Encoding,
    Encodings,
    array_of,
)
from pgrelay.encode.values.arrays import array_converter
from pgrelay.encode.values.hstore import hstore_converter
from pgrelay.encode.values.json_value import JsonElement, json_string, json_string_checked, utf8
from pgrelay.encode.values.numbers import json_number, money_digits, numeric_encoding
from pgrelay.encode.values.temporal import temporal_encoding


def text_encoding(column: ColumnType, choices: Encodings) -> Encoding:
    """The encoding of a column's values that come as text. Every type has one: unknown ones are strings."""
    fixed = _FIXED.get(column.oid) or temporal_encoding(choices.time, column.oid)
    if fixed is not None:
        return fixed
    if column.oid == oids.NUMERIC:
        return numeric_encoding(choices.numeric, column.typmod)
    if column.oid == oids.BYTEA:
        return _BYTEA_HEX if choices.binary == "hex" else _BYTEA_BASE64
    if column.oid in (oids.JSON, oids.JSONB) and choices.json == "inline":
        return Encoding(CONVERT, JSON, utf8) if choices.checked else Encoding(RAW, JSON)
    if column.is_array:
        return _array_encoding(column, choices)
    if column.is_hstore:
        return Encoding(CONVERT, OBJECT, hstore_converter(string_converter(choices)))
    return Encoding(CONVERT, STRING, json_string_checked) if choices.checked else Encoding(TEXT, STRING)


def bytea_base64(value: bytes) -> bytes:
    """A base64 string, from ``\\x`` and hexadecimal digits."""
    return b'"' + b2a_base64(bytea(value), newline=False) + b'"'


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
        raise refusal(value, "a bytea as Postgres prints it with bytea_output = hex")
    return value[2:]


def _array_encoding(column: ColumnType, choices: Encodings) -> Encoding:
    element = text_encoding(column.element_type(), choices)
    convert = array_converter(JsonElement(element), column.delimiter)
    return Encoding(CONVERT, array_of(element.name), convert)


def string_converter(choices: Encodings) -> Converter:
    """A converter from text to a JSON string; it checks for UTF-8 if the choices ask for it."""
    return json_string_checked if choices.checked else json_string


_BYTEA_BASE64: Final = Encoding(CONVERT, BASE64, bytea_base64)
_BYTEA_HEX: Final = Encoding(CONVERT, HEX, bytea_hex)

# The types with one form, whatever the operator chose. The QUOTED ones print as digits, letters and
# punctuation other than quotes and backslashes.
_FIXED: Final[dict[int, Encoding]] = {
    oids.BOOL: Encoding(TRUTH, BOOLEAN),
    oids.INT2: Encoding(RAW, INTEGER),
    oids.INT4: Encoding(RAW, INTEGER),
    oids.INT8: Encoding(RAW, INTEGER),
    oids.OID: Encoding(RAW, INTEGER),
    oids.FLOAT4: Encoding(FLOAT, NUMBER, json_number),
    oids.FLOAT8: Encoding(FLOAT, NUMBER, json_number),
    oids.MONEY: Encoding(CONVERT, STRING, money_digits),
    oids.CHAR: Encoding(CONVERT, STRING, single_byte),
    **dict.fromkeys(
        (
            *(oids.UUID, oids.BIT, oids.VARBIT, oids.PG_LSN, oids.TID, oids.XID, oids.CID, oids.XID8),
            *(oids.INET, oids.CIDR, oids.MACADDR, oids.MACADDR8, oids.INT2VECTOR, oids.OIDVECTOR),
            *(oids.POINT, oids.LSEG, oids.PATH, oids.BOX, oids.POLYGON, oids.LINE, oids.CIRCLE),
            *(oids.TXID_SNAPSHOT, oids.PG_SNAPSHOT),
        ),
        Encoding(QUOTED, STRING),
    ),
}
