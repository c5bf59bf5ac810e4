"""Debezium's envelope in Avro: before, after, unchanged, truncate, source, op, the times, transaction.

As in JSON, what is around the table's names, the LSN and `seq` is made once for a transaction, and the tail
once for a transaction, an operation and an instant.
"""

from typing import Final

from librt.strings import BytesWriter

from pgrelay.encode.avro.body import (
    NULL,
    PRESENT,
    boolean,
    long,
    optional_long,
    optional_string,
    string,
    write_long,
)
from pgrelay.encode.avro.envelope import AvroEnvelope
from pgrelay.encode.avro.names import utf8_safe
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Collection, Plan
from pgrelay.encode.records import Unchanged

_SEQUENCE_END: Final = b'"]'


class DebeziumAvro(AvroEnvelope):
    def __init__(self, options: RecordOptions) -> None:
        super().__init__()
        self._before_table: bytes = b""
        self._before_lsn: bytes = b""
        self._sequence: bytes = b""
        self._commit_lsn: bytes = b""
        self._tails: dict[str, bytes] = {}
        self._database: bytes = string(utf8_safe(options.database))
        self._head: bytes = string(options.version) + string("postgresql") + string(options.prefix)

    def refresh(self) -> None:
        times = long(self.commit_us // 1000) + long(self.commit_us)
        self._before_table = self._head + times + string("false") + self._database
        self._before_lsn = optional_long(self.xid)
        previous = b"null" if self.previous_commit_lsn is None else b'"%d"' % self.previous_commit_lsn
        self._sequence = b"[" + previous + b',"'
        self._commit_lsn = long(self.commit_lsn)
        self._tails = {}

    def open_after(self, writer: BytesWriter, plan: Plan) -> None:
        writer.write(plan.schema_header.value)
        writer.write(b"\x00\x02")

    def open_before(self, writer: BytesWriter, plan: Plan) -> None:
        writer.write(plan.schema_header.value)
        writer.write(PRESENT)

    def close_before(self, writer: BytesWriter) -> None:
        writer.write(NULL)

    def write_both(self, writer: BytesWriter, plan: Plan, before: bytes, after: bytes) -> None:
        writer.write(plan.schema_header.value)
        writer.write(PRESENT)
        writer.write(before)
        writer.write(PRESENT)
        writer.write(after)

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        writer.write(plan.schema_header.value)
        no_rows, nothing_unchanged = NULL + NULL, NULL
        writer.write(no_rows + nothing_unchanged + PRESENT + boolean(cascade) + boolean(restart_identity))

    def close(
        self,
        writer: BytesWriter,
        collection: Collection,
        lsn: int,
        op: str,
        unchanged: Unchanged,
        place: bytes,
    ) -> None:
        self.write_after_rows(writer, unchanged)
        writer.write(self._before_table)
        writer.write(collection.source_names)
        writer.write(self._before_lsn)
        write_long(writer, lsn)
        writer.write(NULL)
        digits = b"%d" % lsn
        write_long(writer, len(self._sequence) + len(digits) + len(_SEQUENCE_END))
        writer.write(self._sequence)
        writer.write(digits)
        writer.write(_SEQUENCE_END)
        writer.write(self._commit_lsn)
        write_long(writer, self.seq)
        writer.write(self._tail(op))
        writer.write(place)

    def _tail(self, op: str) -> bytes:
        tail = self._tails.get(op)
        if tail is None:
            origin = optional_string(None if self.origin is None else utf8_safe(self.origin))
            tail = origin + string(op) + long(self.now_us // 1000) + long(self.now_us)
            self._tails[op] = tail
        return tail
