"""Tuple bytes to record bytes: the per-row loop.

A row's TupleData is walked once. Each column's bytes go straight into the JSON being written. Nothing is
decoded to a Python value, and for the usual types no object is built per column. The same walk writes the
key's columns into a second writer. A format other than JSON overrides the methods below the walk. Layout:
manual, "Logical Replication Message Formats", TupleData.
"""

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be
from mypy_extensions import i64, u8

from pgrelay.encode.plan import ColumnPlan, Plan
from pgrelay.errors import ProtocolError, RecordError
from pgrelay.wire import tuples

_BRACE: Final[u8] = ord("{")
_END_BRACE: Final[u8] = ord("}")
_NULL: Final[u8] = tuples.NULL
_UNCHANGED: Final[u8] = tuples.UNCHANGED
_TEXT: Final[u8] = tuples.TEXT
_BINARY: Final[u8] = tuples.BINARY

# A value of the old row, for a new row that may leave it out: its kind and its bytes.
OldValue = tuple[int, bytes]


def identity_mismatch(table: str, column: str) -> RecordError:
    """The error for an old key that is not the table's, but that of a partition published as its root.

    The Relation is the root's, whose replica identity partitions do not inherit. `column` is a column of the
    key that is missing; empty if the table has no key.
    """
    what = f"an old key without its column {column}" if column else "an old key, although the table has none"
    cure = "set the partition's with ALTER TABLE ... REPLICA IDENTITY as the root's"
    if not column:
        cure = f"ALTER TABLE {table} REPLICA IDENTITY FULL, and the same for its partitions"
    return RecordError(
        f"{table}: the server sent {what}: a partition has another replica identity than the root; {cure}",
        table,
        column,
    )


def close_object(writer: BytesWriter, begin: i64) -> None:
    """Make one object of the members from `begin` on: the first's comma becomes the opening brace."""
    if len(writer) > begin:
        writer[begin] = _BRACE
    else:
        writer.append(_BRACE)
    writer.append(_END_BRACE)


class RowWriter:
    """Writes rows of TupleData as JSON objects, and their keys separately.

    `key` holds the key of the row written last, if its plan has one. `unchanged` has the `encoded_name` of
    each column that the server did not send because its TOAST value is the old one.
    """

    def __init__(self, placeholder: bool) -> None:
        self.key = BytesWriter()
        self.unchanged: list[bytes] = []
        self._placeholder = placeholder

    def write(
        self,
        writer: BytesWriter,
        plan: Plan,
        data: bytes,
        pos: i64,
        key_only: bool = False,
        old: list[OldValue | None] | None = None,
        keep: list[OldValue | None] | None = None,
    ) -> i64:
        """Append the row whose TupleData starts at `pos`, and return where it ends.

        `key_only`: the tuple is an old key, whose other columns are absent, not null. `old`: the old row's
        values, which fill in what is unchanged. `keep`: a list to which this row's values are added.
        Raises ProtocolError on bytes that are not a tuple of this relation, IndexError if they end early,
        RecordError on a value that can't be encoded or a key that is not whole.
        """
        columns = plan.columns
        if read_i16_be(data, pos) != len(columns):
            raise ProtocolError(
                f"a row of {plan.table} has {read_i16_be(data, pos)} columns, its Relation {len(columns)}"
            )
        pos += 2
        limit: i64 = len(data)
        begin: i64 = len(writer)
        self.unchanged = []
        self.key.truncate(0)
        self.key.write(plan.schema_header.key)
        for index, column in enumerate(columns):
            kind: u8 = data[pos]
            pos += 1
            start: i64 = pos
            if kind == _TEXT or kind == _BINARY:
                size: int = read_i32_be(data, pos)
                start = pos + 4
                pos = start + size
                if pos < start or pos > limit:
                    raise ProtocolError(f"a row of {plan.table} is truncated in column {column.name}")
            elif kind != _NULL and kind != _UNCHANGED:
                raise ProtocolError(
                    f"a row of {plan.table} has a column of unknown kind {chr(kind)!r}, {column.name}"
                )
            if key_only and not column.key:
                self._write_absent(writer, column)
                if keep is not None:
                    keep.append(None)
                continue
            if keep is not None:
                keep.append((kind, data[start:pos]))
            if column.suppressed:
                writer.write(column.member_suppressed)
            elif kind == _UNCHANGED:
                self._write_unchanged(writer, column, None if old is None else old[index])
            elif kind == _NULL:
                if key_only:
                    raise identity_mismatch(column.table, column.name)
                self._write_null(writer, column)
            else:
                self._write_present(writer, column, kind, data, start, pos)
        self._close_row(writer, begin)
        return pos

    def _write_present(
        self, writer: BytesWriter, column: ColumnPlan, kind: u8, data: bytes, start: i64, end: i64
    ) -> None:
        """Append a column whose value is `data[start:end]`. Raises RecordError or SetupError."""
        encoding = column.binary if kind == _BINARY else column.text
        if encoding is None:
            raise column.unknown_form_error()
        try:
            writer.write(column.member)
            encoding.write(writer, data, start, end)
            if column.key:
                self.key.write(column.key_member)
                encoding.write(self.key, data, start, end)
        except ValueError as error:
            raise RecordError(
                f"{column.table}.{column.name}: a value of type {column.type.name} can't be encoded: {error}",
                column.table,
                column.name,
                data[start:end] if column.visible else None,
            ) from error

    def _write_unchanged(self, writer: BytesWriter, column: ColumnPlan, old: OldValue | None) -> None:
        if old is not None and old[0] != _NULL and old[0] != _UNCHANGED:
            self._write_present(writer, column, old[0], old[1], 0, len(old[1]))
        elif column.key:
            raise RecordError(
                f"{column.table}.{column.name}: a key column came without its value (unchanged TOAST); "
                "use a key that is not TOASTed, or REPLICA IDENTITY FULL",
                column.table,
                column.name,
            )
        elif self._placeholder and column.member_unchanged:
            writer.write(column.member_unchanged)
        else:
            self.unchanged.append(column.encoded_name)
            self._write_absent(writer, column)

    def _write_absent(self, writer: BytesWriter, column: ColumnPlan) -> None:
        """Write a column that was not sent: JSON leaves it out."""

    def _write_null(self, writer: BytesWriter, column: ColumnPlan) -> None:
        writer.write(column.member_null)
        if column.key:
            self.key.write(column.member_null)

    def _close_row(self, writer: BytesWriter, begin: i64) -> None:
        """Write what surrounds the columns, of the row, which begins at `begin`, and of its key."""
        close_object(writer, begin)
        close_object(self.key, 0)
