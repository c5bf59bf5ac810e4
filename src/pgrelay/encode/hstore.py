"""JSON objects from hstore: a string for every value, or null."""

import re
from typing import Final

from pgrelay.encode.refusal import refusal
from pgrelay.encode.types import Converter

# One pair as hstore_out writes it (manual, "hstore"): quotes and backslashes escaped by a backslash.
_PAIR: Final = re.compile(
    rb'"([^"\\]*(?:\\.[^"\\]*)*)"=>(?:"([^"\\]*(?:\\.[^"\\]*)*)"|NULL)(?:, (?=")|\Z)', re.DOTALL
).match
_UNESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL).sub


def hstore_converter(string: Converter) -> Converter:
    """A converter of hstore's text, ``"a"=>"1", "b"=>NULL``.

    string  makes a JSON string of text
    """

    def convert(value: bytes) -> bytes:
        members: list[bytes] = []
        at = 0
        while at < len(value):
            pair = _PAIR(value, at)
            if pair is None:
                raise refusal(value, "an hstore as Postgres prints one")
            key, item = pair[1], pair[2]
            json = b"null" if item is None else string(_unescaped(item))
            members.append(string(_unescaped(key)) + b":" + json)
            at = pair.end()
        return b"{" + b",".join(members) + b"}"

    return convert


def _unescaped(text: bytes) -> bytes:
    return _UNESCAPE(rb"\1", text) if b"\\" in text else text
