"""Tuple bytes to Avro bytes: what the walk of `rows.RowWriter` writes in this format."""

from librt.strings import BytesWriter
from mypy_extensions import i64

from pgrelay.encode.plan import ColumnPlan
from pgrelay.encode.rows import RowWriter
from pgrelay.errors import RecordError


class AvroRowWriter(RowWriter):
    """Columns that were not sent are null, since a record has all of its fields."""

    def _write_absent(self, writer: BytesWriter, column: ColumnPlan) -> None:
        writer.write(column.member_null)

    def _write_null(self, writer: BytesWriter, column: ColumnPlan) -> None:
        if column.key:
            raise RecordError(
                f"{column.table}.{column.name}: a key column is null, which its Avro schema does not allow; "
                "give the table a primary key, or set records.format: json",
                column.table,
                column.name,
            )
        writer.write(column.member_null)

    def _close_row(self, writer: BytesWriter, begin: i64) -> None:
        """A record ends with its last field."""
