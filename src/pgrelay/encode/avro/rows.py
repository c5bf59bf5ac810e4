"""Tuple bytes to Avro bytes: what the walk of `rows.RowWriter` writes in this format."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from pgrelay.encode.avro.kinds import write_body
from pgrelay.encode.plan import ColumnPlan, Plan
from pgrelay.encode.rows import RowWriter, of_binary, value_error
from pgrelay.errors import RecordError
from pgrelay.wire import tuples

_BINARY: Final[u8] = tuples.BINARY
_PRESENT: Final[u8] = 2


class AvroRowWriter(RowWriter):
    """Columns that were not sent are null, since a record has all of its fields."""

    def _open(self, writer: BytesWriter, plan: Plan) -> None:
        self.key.write(plan.opening.key)

    def _absent(self, writer: BytesWriter, column: ColumnPlan) -> None:
        writer.write(column.member_null)

    def _null(self, writer: BytesWriter, column: ColumnPlan) -> None:
        if column.key:
            raise RecordError(
                f"{column.table}.{column.name}: a key column is null, which its Avro schema does not allow; "
                "give the table a primary key, or set records.format: json",
                column.table,
                column.name,
            )
        writer.write(column.member_null)

    def _member(
        self, writer: BytesWriter, column: ColumnPlan, kind: u8, data: bytes, start: i64, end: i64
    ) -> None:
        if len(column.member) > 0:
            writer.append(_PRESENT)
        self._write_body(writer, column, kind, data, start, end)

    def _key_member(self, column: ColumnPlan, kind: u8, data: bytes, start: i64, end: i64) -> None:
        self._write_body(self.key, column, kind, data, start, end)

    def _close(self, writer: BytesWriter) -> None:
        """A record ends with its last field."""

    def _write_body(
        self, writer: BytesWriter, column: ColumnPlan, kind: u8, data: bytes, start: i64, end: i64
    ) -> None:
        """Append a non-null value, without its union branch. Raises RecordError or SetupError."""
        encoding, convert = column.kind, column.convert
        if kind == _BINARY:
            binary = of_binary(column)
            encoding, convert = binary.kind, binary.convert
        try:
            write_body(writer, encoding, convert, data, start, end)
        except ValueError as error:
            raise value_error(column, data[start:end], error) from error
