"""TupleData: the columns of one row (manual, "Logical Replication Message Formats", TupleData)."""

from dataclasses import dataclass
from typing import Final

from pgrelay.errors import ProtocolError
from pgrelay.wire.cursor import Cursor

NULL: Final = ord("n")
UNCHANGED: Final = ord("u")
TEXT: Final = ord("t")
BINARY: Final = ord("b")


@dataclass(frozen=True, slots=True)
class TupleData:
    """`kinds` has one byte per column (n, u, t or b); `values` has bytes if the kind is t or b, else None.

    `u` is an unchanged TOAST value that the server did not send; it is not null.
    """

    kinds: bytes
    values: tuple[bytes | None, ...]

    @classmethod
    def read(cls, cursor: Cursor) -> "TupleData":
        count = cursor.require_nonnegative(cursor.i16("number of columns"), "columns")
        kinds = bytearray()
        values: list[bytes | None] = []
        for index in range(count):
            kind = cursor.u8(f"kind of column {index + 1}")
            value = None
            if kind in (TEXT, BINARY):
                value = cursor.take(cursor.i32(f"length of column {index + 1}"), f"column {index + 1}")
            elif kind not in (NULL, UNCHANGED):
                raise ProtocolError(
                    f"{cursor.message} has a column of unknown kind {chr(kind)!r} at offset {cursor.pos - 1}"
                )
            kinds.append(kind)
            values.append(value)
        return cls(bytes(kinds), tuple(values))
