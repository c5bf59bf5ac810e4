"""UTF-8 text between JSON's quotes, with quotes, backslashes and control characters escaped.

Source: RFC 8259, section 7. Compiled code looks at eight bytes at a time, and makes no object; interpreted, a
slice is the fastest.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from pgrelay.encode.values.digits import COMPILED

_QUOTE: Final[u8] = 0x22
_BACKSLASH: Final = 0x5C
_SPACE: Final[u8] = 0x20

_CONTROLS: Final = bytes(range(_SPACE))
_SHORT: Final = {0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0C: b"\\f", 0x0D: b"\\r"}
_ESCAPES: Final = [_SHORT.get(byte, b"\\u%04x" % byte) for byte in _CONTROLS]

# The same byte in each of eight.
_ONES: Final[i64] = 0x0101_0101_0101_0101
_SPACES: Final[i64] = 0x2020_2020_2020_2020
_QUOTES: Final[i64] = 0x2222_2222_2222_2222


def escaped(text: bytes) -> bytes:
    """The text as it stands between JSON's quotes."""
    text = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    if len(text.translate(None, _CONTROLS)) != len(text):
        for control, escape in enumerate(_ESCAPES):
            text = text.replace(_CONTROLS[control : control + 1], escape)
    return text


def write_escaped(writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
    """Append `escaped` of `data[start:end]`."""
    if not COMPILED:
        writer.write(escaped(data[start:end]))
        return
    at: i64 = start
    last: i64 = end - 8
    while at <= last:
        word: i64 = read_i64_le(data, at)
        if _is_plain(word):
            write_i64_le(writer, word)
        else:
            _write_bytes(writer, data, at, at + 8)
        at += 8
    _write_bytes(writer, data, at, end)


def _write_bytes(writer: BytesWriter, data: bytes, start: i64, end: i64) -> None:
    byte: u8
    at: i64 = start
    while at < end:
        byte = data[at]
        if byte < _SPACE:
            writer.write(_ESCAPES[byte])
        else:
            if byte == _QUOTE or byte == _BACKSLASH:
                writer.append(_BACKSLASH)
            writer.append(byte)
        at += 1


def _is_plain(word: i64) -> bool:
    """Whether none of eight bytes is a control character, a quote or a backslash.

    It only shifts right and never adds, so that nothing leaves 64 bits. One bit per byte says that one of its
    upper three bits is set, and that any of its bits differs from the quote, and from the backslash.
    """
    # A product, because a compiled constant of all 64 bits would be an object.
    ones: i64 = _ONES
    if (word | word >> 1 | word >> 2) & _SPACES != _SPACES:
        return False
    quote: i64 = word ^ _QUOTES
    quote |= quote >> 4
    quote |= quote >> 2
    backslash: i64 = word ^ ones * _BACKSLASH
    backslash |= backslash >> 4
    backslash |= backslash >> 2
    return (quote | quote >> 1) & (backslash | backslash >> 1) & ones == ones
