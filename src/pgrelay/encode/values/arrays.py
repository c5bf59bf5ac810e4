"""Arrays, in JSON or with other marks around their elements, from the text of Postgres arrays.

The text is ``array_out``'s (manual, "Arrays": "Array Input and Output Syntax"): elements between braces,
nested once for each dimension; NULL unquoted is a null. An element that is empty, reads NULL or has braces,
quotes, backslashes, white space or the delimiter is in quotes, with its quotes and backslashes escaped by a
backslash. Bounds that don't begin at 1 come first, ``[0:1][-1:0]={{1,2},{3,4}}``: none of our formats has a
place for them, so they are left out.
"""

import re
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.encodings import Converter, Encoding
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.values.digits import COMPILED
from pgrelay.encode.values.marks import JSON_ARRAY, Marks

MAX_DIMENSIONS: Final = 6  # PostgreSQL's own, MAXDIM

# A quoted element after its first quote, up to its own quote and past any escaped one.
_QUOTED: Final = re.compile(rb'([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL).match
_ESCAPE: Final = re.compile(rb'["\\]').search

_QUOTE: Final[u8] = ord('"')
_BACKSLASH: Final[u8] = ord("\\")
_N: Final[u8] = ord("N")
_OPEN: Final[u8] = ord("{")
_CLOSE: Final[u8] = ord("}")


def array_converter(
    element: Encoding, delimiter: str, marks: Marks = JSON_ARRAY, dimensions: int = 0
) -> Converter:
    """A converter of arrays, whose elements have the encoding `element`.

    delimiter   one character, pg_type.typdelim of the element type
    dimensions  how many an array must have, unless it is empty; 0 means any number
    """
    return _ArrayText(element, delimiter, marks, dimensions).convert


def check_dimensions(found: int, wanted: int) -> None:
    """Raises ValueError if they differ."""
    if found != wanted:
        raise ValueError(
            f"the array has {found} dimensions, but the column's schema has {wanted}; "
            "ALTER the column's TYPE to one declared with that many, such as int[][]"
        )


def unescaped(text: bytes) -> bytes:
    """A quoted text without the backslashes before quotes and backslashes."""
    if b"\\" not in text:
        return text
    # A backslash that is left between escaped ones stands before a quote.
    return b"\\".join([part.replace(b"\\", b"") for part in text.split(b"\\\\")])


class _ArrayText:
    def __init__(self, element: Encoding, delimiter: str, marks: Marks, dimensions: int) -> None:
        self._element = element
        self._between: u8 = ord(delimiter)
        self._ends = re.compile(b'["\\\\{}' + re.escape(delimiter.encode()) + b"]").search
        self._marks = marks
        self._present: u8 = marks.present[0] if marks.present else 0
        self._dimensions = dimensions

    def convert(self, value: bytes) -> bytes:
        at: i64 = value.find(b"=") + 1 if value[:1] == b"[" else 0
        size: i64 = len(value) - at
        if size < 2 or value[at] != _OPEN:
            raise _malformed(value)
        if size == 2 and value[at + 1] == _CLOSE:
            return self._marks.empty
        writer = BytesWriter()
        if self._write_braces(writer, value, at, 1) != len(value):
            raise _malformed(value)
        return writer.getvalue()

    def _write_braces(self, writer: BytesWriter, text: bytes, at: i64, depth: i64) -> i64:
        """Append the content of the braces that open at `at`. Returns the index after their end."""
        if depth > MAX_DIMENSIONS:
            raise _malformed(text)
        limit: i64 = len(text)
        writer.write(self._marks.opening)
        while True:
            at = self._write_item(writer, text, at + 1, depth)
            follows: u8 = text[at] if at < limit else 0
            if follows == _CLOSE:
                writer.write(self._marks.closing)
                return at + 1
            if follows != self._between:
                raise _malformed(text)
            writer.write(self._marks.between)

    def _write_item(self, writer: BytesWriter, text: bytes, at: i64, depth: i64) -> i64:
        """Append the element or inner braces at `at`. Returns the index after it."""
        end = self._unquoted_end(text, at)
        if end > at:
            self._check(depth)
            if end == at + 4 and text[at] == _N and text[at:end] == b"NULL":
                writer.write(self._marks.null)
            else:
                self._write_element(writer, text, at, end)
            return end
        first: u8 = text[at] if at < len(text) else 0
        if first == _OPEN:
            return self._write_braces(writer, text, at, depth + 1)
        if first != _QUOTE:
            raise ValueError("an array holds nothing between two delimiters")
        self._check(depth)
        return self._write_quoted(writer, text, at + 1)

    def _write_quoted(self, writer: BytesWriter, text: bytes, start: i64) -> i64:
        """Append the element whose text begins at `start`, after its quote. Returns the index after it."""
        end = _plain_end(text, start)
        if end < len(text) and text[end] == _QUOTE:
            self._write_element(writer, text, start, end)
            return end + 1
        quoted = _QUOTED(text, start)
        if quoted is None:
            raise _malformed(text)
        item = unescaped(quoted[1])
        self._write_element(writer, item, 0, len(item))
        return quoted.end()

    def _write_element(self, writer: BytesWriter, text: bytes, start: i64, end: i64) -> None:
        if self._present:
            writer.append(self._present)
        self._element.write(writer, text, start, end)

    def _unquoted_end(self, text: bytes, at: i64) -> i64:
        """Where what has no quotes ends: before a delimiter, or what stands only between quotes."""
        if not COMPILED:
            found = self._ends(text, at)
            return len(text) if found is None else found.start()
        limit: i64 = len(text)
        while at < limit:
            byte: u8 = text[at]
            if byte == self._between or byte == _CLOSE:
                break
            if byte == _QUOTE or byte == _OPEN or byte == _BACKSLASH:
                break
            at += 1
        return at

    def _check(self, depth: i64) -> None:
        """Refuse an element of an array that has the wrong number of dimensions."""
        if self._dimensions:
            check_dimensions(depth, self._dimensions)


def _plain_end(text: bytes, at: i64) -> i64:
    """Where what needs no unescaping ends: before a quote or a backslash."""
    if not COMPILED:
        found = _ESCAPE(text, at)
        return len(text) if found is None else found.start()
    limit: i64 = len(text)
    while at < limit and text[at] != _QUOTE and text[at] != _BACKSLASH:
        at += 1
    return at


def _malformed(value: bytes) -> ValueError:
    return invalid_value(value, "an array as Postgres prints one")
