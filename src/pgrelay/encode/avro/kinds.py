"""The kinds of encoding that Avro has, and how a value of each is written.

The most common types are written without a converter, which would cost an object per value.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.avro.body import write_length, write_long
from pgrelay.encode.avro.values import boolean, epoch_days, epoch_micros, write_decimal, write_double
from pgrelay.encode.types import CONVERT, TRUTH, Converter, Encoding
from pgrelay.encode.values.arrays import Element
from pgrelay.encode.values.digits import integer
from pgrelay.encode.values.plain import copy

# Besides TRUTH, and CONVERT, whose converter gives the whole body.
SIZED: Final = 10  # a string or bytes: the number of the value's bytes, then the bytes
WHOLE: Final = 11  # an int or long, from its digits
DAYS: Final = 12  # a date
MICROS: Final = 13  # a timestamp
DOUBLE: Final = 14  # a double, from a decimal
UNSCALED: Final = 16  # a decimal: the kind is this plus its scale

# The branch of a union ["null", T], as a byte.
_PRESENT: Final[u8] = 2


def write_body(
    writer: BytesWriter, kind: int, convert: Converter | None, data: bytes, start: i64, end: i64
) -> None:
    """Append `data[start:end]` as an encoding of this kind has it.

    Raises ValueError if its type can't hold it.
    """
    if kind == SIZED:
        write_length(writer, end - start)
        copy(writer, data, start, end)
    elif kind == WHOLE:
        write_long(writer, integer(data, start, end))
    elif kind == MICROS:
        write_long(writer, epoch_micros(data, start, end))
    elif kind == DAYS:
        write_long(writer, epoch_days(data, start, end))
    elif kind == DOUBLE:
        write_double(writer, data, start, end)
    elif kind >= UNSCALED:
        write_decimal(writer, data, start, end, kind - UNSCALED)
    elif kind == TRUTH:
        writer.write(boolean(data[start:end]))
    else:
        assert kind == CONVERT
        assert convert is not None
        writer.write(convert(data[start:end]))


def whole_converter(encoding: Encoding) -> Converter:
    """A converter to the whole body, whatever the kind."""

    def convert(value: bytes) -> bytes:
        writer = BytesWriter()
        write_body(writer, encoding.kind, encoding.convert, value, 0, len(value))
        return writer.getvalue()

    return convert if encoding.convert is None else encoding.convert


class AvroElement(Element):
    """Elements of an array in Avro, each null or in this encoding."""

    def __init__(self, encoding: Encoding) -> None:
        self._kind = encoding.kind
        self._convert = encoding.convert

    def write(self, writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
        writer.append(_PRESENT)
        write_body(writer, self._kind, self._convert, data, start, end)
