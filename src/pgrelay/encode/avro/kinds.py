"""The kinds of encoding that Avro has, and how a value of each is written.

The most common types are written without a converter, which would cost an object per value.
"""

from dataclasses import dataclass
from typing import Any, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from pgrelay.encode.avro.body import write_length, write_long
from pgrelay.encode.avro.values import boolean, finite_days, finite_micros, write_decimal, write_double
from pgrelay.encode.encodings import CONVERT, Encoding
from pgrelay.encode.values.digits import integer
from pgrelay.encode.values.plain import copy

# Besides CONVERT, whose converter gives the whole body.
LENGTH_PREFIXED: Final = 10  # a string or bytes: the number of the value's bytes, then the bytes
INTEGER: Final = 11  # an int or long, from its digits
DAYS: Final = 12  # a date
MICROS: Final = 13  # a timestamp
DOUBLE: Final = 14  # a double, from a decimal
BOOL: Final = 15  # a boolean
DECIMAL: Final = 16  # a decimal: the kind is this plus its scale

Schema = Any


@dataclass(frozen=True, slots=True)
class AvroEncoding(Encoding):
    """How one column's values become Avro; `schema` is their type in a schema, `name` that type in short."""

    schema: Schema = "string"

    def write(self, writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
        kind = self.kind
        if kind == LENGTH_PREFIXED:
            write_length(writer, end - start)
            copy(writer, data, start, end)
        elif kind == INTEGER:
            write_long(writer, integer(data, start, end))
        elif kind == MICROS:
            write_long(writer, finite_micros(data, start, end))
        elif kind == DAYS:
            write_long(writer, finite_days(data, start, end))
        elif kind == DOUBLE:
            write_double(writer, data, start, end)
        elif kind >= DECIMAL:
            write_decimal(writer, data, start, end, kind - DECIMAL)
        elif kind == BOOL:
            writer.write(boolean(data[start:end]))
        else:
            assert kind == CONVERT
            assert self.convert is not None
            writer.write(self.convert(data[start:end]))
