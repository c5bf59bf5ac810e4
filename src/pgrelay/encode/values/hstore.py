"""Maps, in JSON or with other marks around their members, from hstore: each value is a string or null."""

import re
from typing import Final

from pgrelay.encode.encodings import Converter
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.values.arrays import unescaped
from pgrelay.encode.values.marks import JSON_OBJECT, Marks

# One pair as hstore_out writes it (manual, "hstore"): quotes and backslashes escaped by a backslash.
_PAIR: Final = re.compile(
    rb'"([^"\\]*(?:\\.[^"\\]*)*)"=>(?:"([^"\\]*(?:\\.[^"\\]*)*)"|NULL)(?:, (?=")|\Z)', re.DOTALL
).match


def hstore_converter(string: Converter, marks: Marks = JSON_OBJECT) -> Converter:
    """A converter of hstore's text, ``"a"=>"1", "b"=>NULL``. `string` writes a name, and a value."""

    def convert(value: bytes) -> bytes:
        members: list[bytes] = []
        at = 0
        while at < len(value):
            pair = _PAIR(value, at)
            if pair is None:
                raise invalid_value(value, "an hstore as Postgres prints one")
            key, text = pair[1], pair[2]
            written = marks.null if text is None else marks.present + string(unescaped(text))
            members.append(string(unescaped(key)) + marks.colon + written)
            at = pair.end()
        return join_members(members, marks)

    return convert


def join_members(members: list[bytes], marks: Marks) -> bytes:
    """The members as one map."""
    return marks.opening + marks.between.join(members) + marks.closing if members else marks.empty
