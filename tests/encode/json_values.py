"""Shared by the tests of values: the JSON of a type's text or binary form."""

from itertools import product
from typing import Final, Literal

from pgrelay.encode.binary.values import binary_encoding
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.types import ColumnType, builtin_type
from pgrelay.encode.values.text import text_encoding

DEFAULTS: Final = Encodings()

_NUMERIC: Final[tuple[Literal["string", "double", "precise"], ...]] = ("string", "double", "precise")
_TIME: Final[tuple[Literal["iso", "debezium"], ...]] = ("iso", "debezium")
_BINARY: Final[tuple[Literal["base64", "hex"], ...]] = ("base64", "hex")
_JSON: Final[tuple[Literal["string", "inline"], ...]] = ("string", "inline")

# Every combination of settings.
ALL_CHOICES: Final = [
    Encodings(numeric, time, binary, json, validate_utf8)
    for numeric, time, binary, json, validate_utf8 in product(_NUMERIC, _TIME, _BINARY, _JSON, (False, True))
]


def built_in(oid: int, typmod: int = -1) -> ColumnType:
    """The built-in type with that OID, which must exist."""
    column = builtin_type(oid, typmod)
    assert column is not None
    return column


def from_text(column: ColumnType, value: bytes, choices: Encodings = DEFAULTS) -> bytes:
    """The JSON of a value that came as text."""
    return text_encoding(column, choices).encode(value)


def from_binary(column: ColumnType, value: bytes, choices: Encodings = DEFAULTS) -> bytes:
    """The JSON of a value that came in binary, whose form must be known."""
    encoding = binary_encoding(column, choices)
    assert encoding is not None
    return encoding.encode(value)


def numeric_typmod(precision: int, scale: int) -> int:
    """The type modifier of numeric(precision, scale); the scale is eleven bits in two's complement."""
    return ((precision << 16) | (scale & 0x7FF)) + 4
