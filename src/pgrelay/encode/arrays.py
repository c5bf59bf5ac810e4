"""Arrays, in JSON or with other marks around their elements, from the text of Postgres arrays.

The text is ``array_out``'s (manual, "Arrays": "Array Input and Output Syntax"): elements between braces,
nested once for each dimension; NULL unquoted is a null; an element that is empty, reads NULL or holds
braces, quotes, backslashes, white space or the delimiter stands between quotes, its quotes and
backslashes escaped by a backslash. Bounds that don't begin at 1 stand in front,
``[0:1][-1:0]={{1,2},{3,4}}``: no form of ours has a place for them, and they are left out.
"""

import re
from typing import Final

from pgrelay.encode.marks import JSON_ARRAY, Marks
from pgrelay.encode.refusal import refusal
from pgrelay.encode.types import Converter

MAX_DIMENSIONS: Final = 6  # PostgreSQL's own, MAXDIM

_UNESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL).sub
# A quoted element, up to its own quote and past any escaped one.
_QUOTED: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL).match
# What never stands in an element without quotes.
_NEEDS_QUOTES: Final = re.compile(rb'["\\{}]').search

_QUOTE: Final = ord('"')
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")


def array_converter(
    element: Converter, delimiter: str, marks: Marks = JSON_ARRAY, dimensions: int = 0
) -> Converter:
    """A converter of arrays whose elements convert with `element`.

    delimiter   one character, pg_type.typdelim of the element type
    dimensions  how many an array must have, unless it is empty; 0: any number
    """
    between = delimiter.encode()

    def convert(value: bytes) -> bytes:
        braces = value[value.find(b"=") + 1 :] if value.startswith(b"[") else value
        if braces == b"{}":
            return marks.empty
        if not braces.startswith(b"{"):
            raise _malformed(value)
        if dimensions:
            # A brace that belongs to an element stands between quotes.
            check_dimensions(len(braces) - len(braces.lstrip(b"{")), dimensions)
        out: list[bytes] = []
        if _write_braces(braces, 0, 1, element, between, marks, out) != len(braces):
            raise _malformed(value)
        return b"".join(out)

    return convert


def check_dimensions(found: int, wanted: int) -> None:
    """Raises ValueError where they differ."""
    if found != wanted:
        raise ValueError(f"the array has {found} dimensions, the column's schema {wanted}")


def _write_braces(
    text: bytes, at: int, depth: int, element: Converter, between: bytes, marks: Marks, out: list[bytes]
) -> int:
    """Append to `out` what the braces hold that open at `at`; give the index behind their end."""
    end = text.find(b"}", at)
    if end < 0 or depth > MAX_DIMENSIONS:
        raise _malformed(text)
    inside = text[at + 1 : end]
    if _NEEDS_QUOTES(inside) is None:
        items = [_unquoted(item, element, marks) for item in inside.split(between)]
        out.append(marks.opening + marks.between.join(items) + marks.closing)
        return end + 1
    before = marks.opening
    while True:
        out.append(before)
        at = _write_item(text, at + 1, depth, element, between, marks, out)
        follows = text[at] if at < len(text) else -1
        if follows == _CLOSE:
            out.append(marks.closing)
            return at + 1
        if follows != between[0]:
            raise _malformed(text)
        before = marks.between


def _write_item(
    text: bytes, at: int, depth: int, element: Converter, between: bytes, marks: Marks, out: list[bytes]
) -> int:
    """Append to `out` the element or inner braces at `at`; give the index behind it."""
    first = text[at] if at < len(text) else -1
    if first == _OPEN:
        return _write_braces(text, at, depth + 1, element, between, marks, out)
    if first == _QUOTE:
        quoted = _QUOTED(text, at)
        if quoted is None:
            raise _malformed(text)
        item = quoted[1]
        out.append(element(_UNESCAPE(rb"\1", item) if b"\\" in item else item))
        return quoted.end()
    end = text.find(between, at)
    close = text.find(b"}", at) if end < 0 else text.find(b"}", at, end)
    end = end if close < 0 else close
    if end < 0 or _NEEDS_QUOTES(text, at, end) is not None:
        raise _malformed(text)
    out.append(_unquoted(text[at:end], element, marks))
    return end


def _unquoted(item: bytes, element: Converter, marks: Marks) -> bytes:
    """An element that stands without quotes."""
    if item == b"NULL":
        return marks.null
    if not item:
        raise ValueError("an array holds nothing between two delimiters")
    return element(item)


def _malformed(value: bytes) -> ValueError:
    return refusal(value, "an array as Postgres prints one")
