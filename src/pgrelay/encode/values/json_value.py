"""One value as JSON, by the kind of its encoding."""

from binascii import b2a_base64, hexlify
from dataclasses import dataclass
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.encodings import Encoding
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.values.escapes import escaped, write_escaped
from pgrelay.encode.values.numbers import write_json_number
from pgrelay.encode.values.plain import copy
from pgrelay.encode.values.temporal import write_timestamp

# The kinds of encoding that JSON has besides CONVERT.
RAW: Final = 0  # the value's bytes are themselves valid JSON
QUOTED: Final = 1  # between quotes as they are: bytes that never need escaping
TEXT: Final = 2  # a JSON string whose bytes may need escaping: `pgrelay.encode.values.escapes`
BOOL: Final = 4  # a boolean
TIMESTAMP: Final = 5  # a timestamp in ISO 8601
TIMESTAMPTZ: Final = 6  # the same of a timestamptz
FLOAT: Final = 7  # a number, or one of the three values that JSON has no number for

_QUOTE: Final[u8] = ord('"')
_TRUE: Final[u8] = ord("t")
_FALSE: Final[u8] = ord("f")


@dataclass(frozen=True, slots=True)
class JsonEncoding(Encoding):
    """Writes the usual values without making an object."""

    def write(self, writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
        kind = self.kind
        if kind == TEXT or kind == QUOTED:
            writer.append(_QUOTE)
            if kind == TEXT:
                write_escaped(writer, data, start, end)
            else:
                copy(writer, data, start, end)
            writer.append(_QUOTE)
        elif kind == RAW:
            copy(writer, data, start, end)
        elif kind == BOOL:
            writer.write(_boolean(data, start, end))
        elif not _write_usual(writer, kind, data, start, end):
            assert self.convert is not None
            writer.write(self.convert(data[start:end]))


def _write_usual(writer: BytesWriter, kind: int, data: bytes, start: i64, end: i64) -> bool:
    """False, and nothing appended, if the value needs its converter."""
    if kind == FLOAT:
        return write_json_number(writer, data, start, end)
    if kind == TIMESTAMPTZ or kind == TIMESTAMP:
        return write_timestamp(writer, data, start, end, kind == TIMESTAMPTZ)
    return False


def json_string(data: bytes) -> bytes:
    """A JSON string of UTF-8 text: quotes, backslashes and control characters escaped, all else as it is."""
    return b'"' + escaped(data) + b'"'


def json_string_checked(data: bytes) -> bytes:
    """`json_string` of bytes that may not be UTF-8. Raises ValueError if they aren't."""
    return json_string(utf8(data))


def json_base64(data: bytes) -> bytes:
    """A base64 string of the bytes themselves."""
    return b'"' + b2a_base64(data, newline=False) + b'"'


def json_hex(data: bytes) -> bytes:
    """A string of the bytes' hexadecimal digits."""
    return b'"' + hexlify(data) + b'"'


def utf8(data: bytes) -> bytes:
    """The bytes as they are. Raises ValueError if they aren't UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"text is not UTF-8: {error.reason} at byte {error.start}") from None
    return data


def _boolean(data: bytes, start: i64, end: i64) -> bytes:
    """true or false, from ``t`` or ``f``."""
    if end - start == 1:
        if data[start] == _TRUE:
            return b"true"
        if data[start] == _FALSE:
            return b"false"
    raise invalid_value(data[start:end], "a boolean as Postgres prints one")
