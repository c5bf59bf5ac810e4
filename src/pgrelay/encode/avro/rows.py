"""Tuple bytes to Avro bytes: what the walk of `rows.RowWriter` writes in this format."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import u8

from pgrelay.encode.avro.body import write_long, write_sized
from pgrelay.encode.avro.types import DAYS, MICROS, SIZED, TRUTH, UNSCALED, WHOLE
from pgrelay.encode.avro.values import epoch_days, epoch_micros, truth, write_decimal
from pgrelay.encode.digits import integer
from pgrelay.encode.plan import ColumnPlan, Plan
from pgrelay.encode.rows import RowWriter, converted, of_binary, value_error
from pgrelay.encode.types import CONVERT
from pgrelay.errors import RecordError
from pgrelay.wire import tuples

_BINARY: Final[u8] = tuples.BINARY
_PRESENT: Final[u8] = 2
_TRUE: Final[u8] = 1
_FALSE: Final[u8] = 0


class AvroRowWriter(RowWriter):
    """Columns that were not sent are null, since a record has all of its fields."""

    def _open(self, writer: BytesWriter, plan: Plan) -> None:
        self.key.write(plan.opening.key)

    def _absent(self, writer: BytesWriter, column: ColumnPlan) -> None:
        writer.write(column.member_null)

    def _null(self, writer: BytesWriter, column: ColumnPlan) -> None:
        if column.key:
            raise RecordError(
                f"{column.table}.{column.name}: a column of the key is null, for which its Avro schema has "
                "no place; give the table a primary key, or set records.format: json",
                column.table,
                column.name,
            )
        writer.write(column.member_null)

    def _member(self, writer: BytesWriter, column: ColumnPlan, kind: u8, value: bytes) -> None:
        if column.member:
            writer.append(_PRESENT)
        self._write_body(writer, column, kind, value)

    def _key_member(self, column: ColumnPlan, kind: u8, value: bytes) -> None:
        self._write_body(self.key, column, kind, value)

    def _close(self, writer: BytesWriter) -> None:
        """A record ends with its last field."""

    def _write_body(self, writer: BytesWriter, column: ColumnPlan, kind: u8, value: bytes) -> None:
        """Append a value that is there, without its branch of a union. Raises RecordError or SetupError."""
        encoding, convert = column.kind, column.convert
        if kind == _BINARY:
            encoding, convert = of_binary(column)
        if encoding == SIZED:
            write_sized(writer, value)
        elif encoding == CONVERT:
            assert convert is not None
            writer.write(converted(column, convert, value))
        else:
            try:
                _write_directly(writer, encoding, value)
            except ValueError as error:
                raise value_error(column, value, error) from error


def _write_directly(writer: BytesWriter, encoding: int, value: bytes) -> None:
    if encoding == WHOLE:
        write_long(writer, integer(value))
    elif encoding == MICROS:
        write_long(writer, epoch_micros(value))
    elif encoding == DAYS:
        write_long(writer, epoch_days(value))
    elif encoding >= UNSCALED:
        write_decimal(writer, value, encoding - UNSCALED)
    else:
        assert encoding == TRUTH
        writer.append(_TRUE if truth(value) else _FALSE)
