"""Arrays, in JSON or with other marks around their elements, from the text of Postgres arrays.

The text is ``array_out``'s (manual, "Arrays": "Array Input and Output Syntax"): elements between braces,
nested once for each dimension; NULL unquoted is a null. An element that is empty, reads NULL or has braces,
quotes, backslashes, white space or the delimiter is in quotes, with its quotes and backslashes escaped by a
backslash. Bounds that don't begin at 1 come first, ``[0:1][-1:0]={{1,2},{3,4}}``: none of our formats has a
place for them, so they are left out.
"""

import re
from typing import Final

from pgrelay.encode.refusal import refusal
from pgrelay.encode.types import Converter
from pgrelay.encode.values.marks import JSON_ARRAY, Marks

MAX_DIMENSIONS: Final = 6  # PostgreSQL's own, MAXDIM

# A quoted element, up to its own quote and past any escaped one.
_QUOTED: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL).match
# What an element without quotes never has.
_NEEDS_QUOTES: Final = re.compile(rb'["\\{}]').search

_QUOTE: Final = ord('"')
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")


def array_converter(
    element: Converter, delimiter: str, marks: Marks = JSON_ARRAY, dimensions: int = 0
) -> Converter:
    """A converter of arrays whose elements convert with `element`.

    delimiter   one character, pg_type.typdelim of the element type
    dimensions  how many an array must have, unless it is empty; 0 means any number
    """
    return _ArrayText(element, delimiter.encode(), marks, dimensions).convert


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
    def __init__(self, element: Converter, between: bytes, marks: Marks, dimensions: int) -> None:
        self._element = element
        self._between = between
        self._marks = marks
        self._dimensions = dimensions

    def convert(self, value: bytes) -> bytes:
        braces = value[value.find(b"=") + 1 :] if value.startswith(b"[") else value
        if braces == b"{}":
            return self._marks.empty
        out: list[bytes] = []
        if not braces.startswith(b"{") or self._write_braces(braces, 0, 1, out) != len(braces):
            raise _malformed(value)
        return b"".join(out)

    def _write_braces(self, text: bytes, at: int, depth: int, out: list[bytes]) -> int:
        """Append the content of the braces that open at `at` to `out`. Returns the index after their end."""
        end = text.find(b"}", at)
        if end < 0 or depth > MAX_DIMENSIONS:
            raise _malformed(text)
        marks = self._marks
        inside = text[at + 1 : end]
        if _NEEDS_QUOTES(inside) is None:
            items = [self._unquoted(item, depth) for item in inside.split(self._between)]
            out.append(marks.opening + marks.between.join(items) + marks.closing)
            return end + 1
        before = marks.opening
        while True:
            out.append(before)
            at = self._write_item(text, at + 1, depth, out)
            follows = text[at] if at < len(text) else -1
            if follows == _CLOSE:
                out.append(marks.closing)
                return at + 1
            if follows != self._between[0]:
                raise _malformed(text)
            before = marks.between

    def _write_item(self, text: bytes, at: int, depth: int, out: list[bytes]) -> int:
        """Append the element or inner braces at `at` to `out`. Returns the index after it."""
        first = text[at] if at < len(text) else -1
        if first == _OPEN:
            return self._write_braces(text, at, depth + 1, out)
        if first == _QUOTE:
            quoted = _QUOTED(text, at)
            if quoted is None:
                raise _malformed(text)
            item = quoted[1]
            self._check(depth)
            out.append(self._element(unescaped(item)))
            return quoted.end()
        end = text.find(self._between, at)
        close = text.find(b"}", at) if end < 0 else text.find(b"}", at, end)
        end = end if close < 0 else close
        if end < 0 or _NEEDS_QUOTES(text, at, end) is not None:
            raise _malformed(text)
        out.append(self._unquoted(text[at:end], depth))
        return end

    def _unquoted(self, item: bytes, depth: int) -> bytes:
        """Convert an element without quotes."""
        self._check(depth)
        if item == b"NULL":
            return self._marks.null
        if not item:
            raise ValueError("an array holds nothing between two delimiters")
        return self._element(item)

    def _check(self, depth: int) -> None:
        """Refuse an element of an array that has the wrong number of dimensions."""
        if self._dimensions:
            check_dimensions(depth, self._dimensions)


def _malformed(value: bytes) -> ValueError:
    return refusal(value, "an array as Postgres prints one")
