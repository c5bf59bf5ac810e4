"""JSON encodings of values that come in binary, the form that each type's send function writes."""

from typing import Final

from pgrelay.encode import oids
from pgrelay.encode.text import text_encoding
from pgrelay.encode.types import ColumnType, Encoding, Encodings

# Types whose binary form is their text.
_SAME: Final = frozenset(
    (oids.NAME, oids.TEXT, oids.BPCHAR, oids.VARCHAR, oids.JSON, oids.XML, oids.REFCURSOR)
)


def binary_encoding(column: ColumnType, choices: Encodings) -> Encoding | None:
    """The encoding of a column's values that come in binary; None when we don't know that form."""
    if column.oid in _SAME:
        return text_encoding(column, choices)
    return None
