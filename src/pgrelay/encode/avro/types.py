"""The Avro encoding of each column: the type of its values, and how they are written.

| Postgres | Avro |
|---|---|
| smallint, integer | int |
| bigint, oid | long |
| real · double precision | float · double |
| numeric(p,s) | bytes, decimal(p,s) · double if `numeric: double` |
| numeric without precision | string · double if `numeric: double` |
| boolean | boolean |
| bytea | bytes |
| date | int, date |
| timestamp | long, local-timestamp-micros, which has no time zone |
| timestamptz | long, timestamp-micros |
| time | long, time-micros |
| timetz | string · long, time-micros in UTC if `time: debezium` |
| uuid | string, uuid |
| arrays | array of null or the element's type, in as many dimensions as were declared |
| hstore | map of null or string |
| all else (text, enums, json, interval, money, ranges, ...) | string: Postgres's own text, money as digits |

Avro has a good type for most of what JSON needs a choice for, so `numeric: string` and `precise` are the same
here, and `time: iso`, `binary` and `json` change nothing. Avro's decimal can't have a scale that is negative
or larger than the precision; such a numeric gets a precision and scale that hold the same numbers. A value
that its type can't hold (see `values`), or an array of more or fewer dimensions, is a RecordError.
"""

from dataclasses import replace
from typing import Final

from pgrelay.encode import oids
from pgrelay.encode.avro import values
from pgrelay.encode.avro.body import sized
from pgrelay.encode.avro.kinds import (
    BOOL,
    DAYS,
    DECIMAL,
    DOUBLE,
    INTEGER,
    LENGTH_PREFIXED,
    MICROS,
    AvroEncoding,
    Schema,
)
from pgrelay.encode.binary.containers import array_decoder, hstore_decoder
from pgrelay.encode.binary.values import same_text, text_decoder
from pgrelay.encode.encodings import CONVERT, Converter, Encodings, array_of
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.arrays import array_converter
from pgrelay.encode.values.hstore import hstore_converter
from pgrelay.encode.values.json_value import utf8
from pgrelay.encode.values.numbers import declared_precision, declared_scale, money_amount
from pgrelay.encode.values.text import bytea, single_byte_text


def avro_text_encoding(column: ColumnType, choices: Encodings, dimensions: int = 1) -> AvroEncoding:
    """The encoding of a column's values that come as text; if they are arrays, with so many dimensions."""
    fixed = _FIXED.get(column.oid)
    if fixed is not None:
        return fixed
    if column.oid == oids.NUMERIC:
        return _numeric(column.typmod, choices)
    if column.oid == oids.TIMETZ and choices.time == "debezium":
        return _logical("long", "time-micros", values.utc_time)
    text = AvroEncoding(CONVERT, "string", _CHECKED) if choices.validate_utf8 else STRING
    if column.is_hstore:
        return _map(hstore_converter(text.encode, values.MAP))
    if column.is_array:
        inner = column.element_type()
        element = avro_text_encoding(inner, choices, inner.dimensions)
        convert = array_converter(element, column.delimiter, values.ARRAY, dimensions)
        return _array_of(element, dimensions, convert)
    return text


def avro_binary_encoding(column: ColumnType, choices: Encodings, dimensions: int = 1) -> AvroEncoding | None:
    """The same for values that come in binary; None if we don't know that form."""
    if column.oid == oids.BYTEA:
        return AvroEncoding(LENGTH_PREFIXED, "bytes", schema="bytes")
    if column.is_hstore:
        if choices.server_transcodes:
            return None
        return _map(hstore_decoder(_CHECKED if choices.validate_utf8 else sized, values.MAP))
    if column.is_array:
        inner = column.element_type()
        element = avro_binary_encoding(inner, choices, inner.dimensions)
        if element is None:
            return None
        return _array_of(element, dimensions, array_decoder(element.encode, values.ARRAY, dimensions))
    decode = text_decoder(column, choices)
    if decode is None:
        return None
    of_text = avro_text_encoding(column, choices)
    if decode is same_text:
        return of_text
    return replace(of_text, kind=CONVERT, convert=lambda value: of_text.encode(decode(value)))


def _sized(convert: Converter) -> Converter:
    """A converter to the string, or bytes, that `convert` gives."""
    return lambda value: sized(convert(value))


def _map(convert: Converter) -> AvroEncoding:
    return AvroEncoding(CONVERT, "map<string>", convert, {"type": "map", "values": ["null", "string"]})


def _array_of(element: AvroEncoding, dimensions: int, convert: Converter) -> AvroEncoding:
    schema: Schema = {"type": "array", "items": ["null", element.schema]}
    name = array_of(element.name)
    for _ in range(dimensions - 1):
        schema = {"type": "array", "items": schema}
        name = array_of(name)
    return AvroEncoding(CONVERT, name, convert, schema)


def _numeric(typmod: int, choices: Encodings) -> AvroEncoding:
    if choices.numeric == "double":
        return _DOUBLE
    if typmod < 0:
        return STRING
    precision, scale = declared_precision(typmod), declared_scale(typmod)
    # What Avro's decimal can have: 0 <= scale <= precision.
    precision = precision - scale if scale < 0 else max(precision, scale)
    scale = max(scale, 0)
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return AvroEncoding(DECIMAL + scale, f"decimal({precision},{scale})", schema=schema)


def _logical(primitive: str, name: str, convert: Converter | None, kind: int = CONVERT) -> AvroEncoding:
    return AvroEncoding(kind, name, convert, {"type": primitive, "logicalType": name})


STRING: Final = AvroEncoding(LENGTH_PREFIXED, "string")
_DOUBLE: Final = AvroEncoding(DOUBLE, "double", schema="double")
_INT: Final = AvroEncoding(INTEGER, "int", schema="int")
_LONG: Final = AvroEncoding(INTEGER, "long", schema="long")

# A string of bytes that may not be UTF-8.
_CHECKED: Final = _sized(utf8)

_FIXED: Final[dict[int, AvroEncoding]] = {
    oids.BOOL: AvroEncoding(BOOL, "boolean", schema="boolean"),
    oids.INT2: _INT,
    oids.INT4: _INT,
    oids.INT8: _LONG,
    oids.OID: _LONG,
    oids.FLOAT4: AvroEncoding(CONVERT, "float", values.single, "float"),
    oids.FLOAT8: _DOUBLE,
    oids.MONEY: AvroEncoding(CONVERT, "string", _sized(money_amount)),
    oids.CHAR: AvroEncoding(CONVERT, "string", _sized(single_byte_text)),
    oids.BYTEA: AvroEncoding(CONVERT, "bytes", _sized(bytea), "bytes"),
    oids.DATE: _logical("int", "date", None, DAYS),
    oids.TIMESTAMP: _logical("long", "local-timestamp-micros", None, MICROS),
    oids.TIMESTAMPTZ: _logical("long", "timestamp-micros", None, MICROS),
    oids.TIME: _logical("long", "time-micros", values.time),
    oids.UUID: _logical("string", "uuid", None, LENGTH_PREFIXED),
}
