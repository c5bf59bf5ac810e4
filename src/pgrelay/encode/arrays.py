"""JSON arrays from the text of Postgres arrays.

The text is ``array_out``'s (manual, "Arrays": "Array Input and Output Syntax"): elements between braces,
nested once for each dimension; NULL unquoted is a null; an element that is empty, reads NULL or holds
braces, quotes, backslashes, white space or the delimiter stands between quotes, its quotes and
backslashes escaped by a backslash. Bounds that don't begin at 1 stand in front,
``[0:1][-1:0]={{1,2},{3,4}}``: JSON has no place for them, and they are left out.
"""

import re
from typing import Final

from pgrelay.encode.types import Converter

_UNESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL).sub
# What a quoted element runs to: its own quote, past any escaped character.
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL).match

_QUOTE: Final = 34
_OPEN: Final = 123
_CLOSE: Final = 125


def array_converter(element: Converter, delimiter: str) -> Converter:
    """A converter of arrays whose elements convert with `element`.

    delimiter  one character, pg_type.typdelim of the element type
    """
    between = delimiter.encode()

    def convert(value: bytes) -> bytes:
        braces = value[value.index(b"=") + 1 :] if value.startswith(b"[") and b"=" in value else value
        if not braces.startswith(b"{") or not braces.endswith(b"}"):
            raise _malformed(value)
        if braces == b"{}":
            return b"[]"
        if b'"' not in braces and braces.rfind(b"{") == 0:
            items = braces[1:-1].split(between)
            return b"[" + b",".join([_unquoted(item, element) for item in items]) + b"]"
        out: list[bytes] = []
        if _write_braces(braces, 0, element, between[0], out) != len(braces):
            raise _malformed(value)
        return b"".join(out)

    return convert


def _write_braces(text: bytes, at: int, element: Converter, delimiter: int, out: list[bytes]) -> int:
    """Append to `out` the JSON of the braces that open at `at`; give the index behind their end."""
    opening = b"["
    while True:
        out.append(opening)
        at = _write_item(text, at + 1, element, delimiter, out)
        follows = text[at] if at < len(text) else -1
        if follows == _CLOSE:
            out.append(b"]")
            return at + 1
        if follows != delimiter:
            raise _malformed(text)
        opening = b","


def _write_item(text: bytes, at: int, element: Converter, delimiter: int, out: list[bytes]) -> int:
    """Append to `out` the JSON of the element or inner braces at `at`; give the index behind it."""
    first = text[at] if at < len(text) else -1
    if first == _OPEN:
        return _write_braces(text, at, element, delimiter, out)
    if first == _QUOTE:
        quoted = _QUOTED(text, at)
        if quoted is None:
            raise _malformed(text)
        item = quoted[1]
        out.append(element(_UNESCAPE(rb"\1", item) if b"\\" in item else item))
        return quoted.end()
    end = at
    while end < len(text) and text[end] != delimiter and text[end] != _CLOSE:
        end += 1
    out.append(_unquoted(text[at:end], element))
    return end


def _unquoted(item: bytes, element: Converter) -> bytes:
    """The JSON of an element that stands without quotes."""
    if item == b"NULL":
        return b"null"
    if not item or b"{" in item or b"}" in item or b'"' in item or b"\\" in item:
        raise ValueError(f"{item!r} is no element of an array as Postgres prints one")
    return element(item)


def _malformed(value: bytes) -> ValueError:
    return ValueError(f"{value!r} is not an array as Postgres prints one")
