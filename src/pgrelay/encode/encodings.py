"""How values are written: the operator's choices, and what every encoding has in common.

An encoding is looked up once per relation, when its plan is built, never for a row. Those of JSON are in
`values.text` and `binary.values`, by the form in which values come; those of Avro are in `avro.types`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from librt.strings import BytesWriter
from mypy_extensions import i64

# Converts one value's bytes, as the server sent them, to the whole JSON value (or, where it says so, to the
# text of a binary form). Raises ValueError on bytes that the server can't have sent.
Converter = Callable[[bytes], bytes]

# The kind that every format has: `Encoding.convert` gives the whole value.
CONVERT: Final = 3


@dataclass(frozen=True, slots=True)
class Encodings:
    """The operator's choices for types that have more than one good JSON form.

    validate_utf8      text must be checked to be UTF-8: the server does that for every database except one
                       whose encoding is SQL_ASCII
    server_transcodes  the server converts text from another encoding; the sizes in hstore's binary form are
                       those before the conversion (hstore_io.c, hstore_send), so it can't be read
    padded_lsn         the server prints the low half of a pg_lsn with 8 digits, as since PostgreSQL 19
    """

    numeric: Literal["string", "double", "precise"] = "string"
    time: Literal["iso", "debezium"] = "iso"
    binary: Literal["base64", "hex"] = "base64"
    json: Literal["string", "inline"] = "string"
    validate_utf8: bool = False
    server_transcodes: bool = False
    padded_lsn: bool = False


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one column's values, or an array's elements, are written: in JSON, or in Avro.

    kind     CONVERT or one of the format's own, on which its `write` switches
    name     the encoding's name in the schema topic: in JSON one of the names below, or array<name>
    convert  present if the kind is CONVERT, or one whose usual values `write` writes itself
    """

    kind: int
    name: str
    convert: Converter | None = None

    def write(self, writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
        """Append the value whose text or binary form is `data[start:end]`.

        Raises ValueError on bytes that the server can't have sent, or that the encoding has no place for.
        """
        raise NotImplementedError

    def encode(self, value: bytes) -> bytes:
        """The whole value: a Converter for every kind."""
        if self.kind == CONVERT and self.convert is not None:
            return self.convert(value)
        writer = BytesWriter()
        self.write(writer, value, 0, len(value))
        return writer.getvalue()


# The names of encodings. Together with a column's type they tell a consumer how to read its values.
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
NUMBER: Final = "number"  # or one of the strings NaN, Infinity, -Infinity
STRING: Final = "string"
DECIMAL_BASE64: Final = "decimal-base64"  # big-endian two's complement at the declared scale
VARIABLE_DECIMAL: Final = "variable-decimal"  # {"scale": s, "value": decimal-base64}
ISO_DATE: Final = "iso-date"
ISO_TIMESTAMP: Final = "iso-timestamp"
ISO_TIME: Final = "iso-time"
ISO_DURATION: Final = "iso-duration"
EPOCH_DAYS: Final = "epoch-days"  # or one of the strings infinity, -infinity
MICROS: Final = "micros"  # since 1970 or midnight; or one of the strings infinity, -infinity
BASE64: Final = "base64"
HEX: Final = "hex"
JSON: Final = "json"
OBJECT: Final = "object"


def array_of(name: str) -> str:
    """The name of the encoding of arrays whose elements have the encoding of that name."""
    return f"array<{name}>"
