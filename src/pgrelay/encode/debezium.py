"""Debezium's envelope, as JSON: before, after, source, op, the times, transaction.

`source` is mostly constant, so what is around the table's names, the LSN and `seq` is made once for a
transaction, and the tail once for a transaction, an operation and an instant.
"""

from librt.strings import BytesWriter

from pgrelay.encode.envelope import JsonEnvelope
from pgrelay.encode.json_text import json_array, json_name
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Collection, Plan
from pgrelay.encode.records import Unchanged
from pgrelay.encode.values.plain import write_number


class DebeziumJson(JsonEnvelope):
    def __init__(self, options: RecordOptions) -> None:
        super().__init__()
        self._before_table: bytes = b""
        self._before_lsn: bytes = b""
        self._middle: bytes = b""
        self._after_lsn: bytes = b""
        self._tails: dict[str, bytes] = {}
        self._database: bytes = json_name(options.database)
        self._head: bytes = (
            b',"source":{"version":' + json_name(options.version) + b',"connector":"postgresql","name":'
        ) + json_name(options.prefix)

    def refresh(self) -> None:
        times = b',"ts_ms":%d,"ts_us":%d' % (self.commit_us // 1000, self.commit_us)
        self._before_table = self._head + times + b',"snapshot":"false","db":' + self._database
        self._before_lsn = b',"txId":' + self.xid_text + b',"lsn":'
        previous = b"null" if self.previous_commit_lsn is None else b'\\"%d\\"' % self.previous_commit_lsn
        self._middle = b',"xmin":null,"sequence":"[' + previous + b',\\"'
        self._after_lsn = b'\\"]","commit_lsn":%d,"seq":' % self.commit_lsn
        self._tails = {}

    def open_after(self, writer: BytesWriter, plan: Plan) -> None:
        writer.write(b'{"before":null,"after":')

    def open_before(self, writer: BytesWriter, plan: Plan) -> None:
        writer.write(b'{"before":')

    def close_before(self, writer: BytesWriter) -> None:
        writer.write(b',"after":null')

    def write_both(self, writer: BytesWriter, plan: Plan, before: bytes, after: bytes) -> None:
        writer.write(b'{"before":')
        writer.write(before)
        writer.write(b',"after":')
        writer.write(after)

    def write_member(self, writer: BytesWriter, name: str, content: bytes) -> None:
        writer.write(b'{"before":null,"after":null,' + json_name(name) + b":" + content)

    def close(
        self,
        writer: BytesWriter,
        collection: Collection,
        lsn: int,
        op: str,
        unchanged: Unchanged,
        place: bytes,
    ) -> None:
        if unchanged:
            writer.write(b',"unchanged":' + json_array(unchanged))
        digits = b"%d" % lsn
        writer.write(self._before_table)
        writer.write(collection.source_names)
        writer.write(self._before_lsn)
        writer.write(digits)
        writer.write(self._middle)
        writer.write(digits)
        writer.write(self._after_lsn)
        write_number(writer, self.seq)
        writer.write(self._tail(op))
        writer.write(place)
        writer.write(b"}")

    def _tail(self, op: str) -> bytes:
        tail = self._tails.get(op)
        if tail is None:
            now_us = self.now_us
            tail = b',"origin":%b},"op":"%b","ts_ms":%d,"ts_us":%d,"transaction":' % (
                b"null" if self.origin is None else json_name(self.origin),
                op.encode(),
                now_us // 1000,
                now_us,
            )
            self._tails[op] = tail
        return tail
