"""Postgres's text for ranges and multiranges that come in binary (manual, "Range Types")."""

import re
from typing import Final

from pgrelay.encode.binary.fields import int32, read_bytes, read_count, require_end
from pgrelay.encode.encodings import Converter

# Flags of ``src/include/utils/rangetypes.h``.
_EMPTY: Final = 0x01
_LOWER_INCLUSIVE: Final = 0x02
_UPPER_INCLUSIVE: Final = 0x04
_LOWER_INFINITE: Final = 0x08
_UPPER_INFINITE: Final = 0x10
_ALL: Final = 0x1F

# What makes range_out quote a bound; it also quotes an empty one.
_QUOTE_FOR: Final = re.compile(rb'["\\(),\[\] \t\n\v\f\r]').search


def range_decoder(subtype: Converter) -> Converter:
    """A function from a range's binary form to its text: ``[1,5)``.

    A byte of flags, then for each finite bound its Int32 size and its binary form, which `subtype` converts
    to text.
    """

    def decode(value: bytes) -> bytes:
        flags = read_bytes(value, 0, 1)[0]
        if flags & ~_ALL:
            raise ValueError(f"a range has the flags 0x{flags:02X}")
        if flags & _EMPTY:
            require_end(value, 1)
            return b"empty"
        lower, at = (b"", 1) if flags & _LOWER_INFINITE else _bound(value, 1, subtype)
        upper, at = (b"", at) if flags & _UPPER_INFINITE else _bound(value, at, subtype)
        require_end(value, at)
        opening = b"[" if flags & _LOWER_INCLUSIVE else b"("
        return opening + lower + b"," + upper + (b"]" if flags & _UPPER_INCLUSIVE else b")")

    return decode


def multirange_decoder(range_: Converter) -> Converter:
    """A function from a multirange's binary form to its text: ``{[1,2),[5,6)}``.

    Int32 number of ranges, then for each its Int32 size and its binary form, which `range_` converts to text.
    """

    def decode(value: bytes) -> bytes:
        at = 4
        ranges: list[bytes] = []
        for _ in range(read_count(value, 0)):
            size = int32(value, at)
            ranges.append(range_(read_bytes(value, at + 4, size)))
            at += 4 + size
        require_end(value, at)
        return b"{" + b",".join(ranges) + b"}"

    return decode


def _bound(value: bytes, at: int, subtype: Converter) -> tuple[bytes, int]:
    """The text of the bound at that index, and the index after it."""
    size = int32(value, at)
    text = subtype(read_bytes(value, at + 4, size))
    if not text or _QUOTE_FOR(text) is not None:
        text = b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'""') + b'"'
    return text, at + 4 + size
