"""The value around the row: Debezium's envelope, as JSON.

`source` is mostly constant: its head for a table in a transaction, its middle for a transaction, its tail for
a transaction and an operation at one instant. Only the change's own LSN and `seq` are written per record.
"""

from typing import Final

from librt.strings import BytesWriter

from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, json_text
from pgrelay.events import TransactionBegin

CREATE: Final = "c"
UPDATE: Final = "u"
DELETE: Final = "d"
TRUNCATE: Final = "t"
MESSAGE: Final = "m"

# Where a value has neither row: truncates and logical messages.
NO_ROWS: Final = b'{"before":null,"after":null'


class Envelope:
    """Closes values with `source`, `op` and the times, for one transaction after the other.

    Times are microseconds since 1970. `seq` counts the records of the transaction from 0.
    """

    def __init__(self, options: RecordOptions) -> None:
        self.seq: int = 0
        self.commit_lsn: int = 0
        self._serial: int = 0
        self._now_us: int = 0
        self._previous_commit: int | None = None
        self.xid: bytes = b"null"
        self._middle: bytes = b""
        self._after_lsn: bytes = b""
        self._origin: bytes = b"null"
        self._times: bytes = b""
        self._tails: dict[str, bytes] = {}
        self._no_table: bytes = b',"schema":"","table":""'
        self._database: bytes = json_text(options.database)
        self._head: bytes = (
            b'{"version":' + json_text(options.version) + b',"connector":"postgresql","name":'
        ) + json_text(options.prefix)

    def begin(self, begin: TransactionBegin) -> None:
        self._serial += 1
        self.seq = 0
        self.commit_lsn = begin.commit_lsn
        self._origin = b"null"
        self.xid = b"null" if begin.xid is None else b"%d" % begin.xid
        commit_us = begin.commit_us
        self._times = b',"ts_ms":%d,"ts_us":%d' % (commit_us // 1000, commit_us)
        previous = b"null" if self._previous_commit is None else b'\\"%d\\"' % self._previous_commit
        self._middle = b',"xmin":null,"sequence":"[' + previous + b',\\"'
        self._after_lsn = b'\\"]","commit_lsn":%d,"seq":' % begin.commit_lsn
        self._tails = {}

    def end(self) -> None:
        self._previous_commit = self.commit_lsn

    def set_origin(self, name: str) -> None:
        self._origin = json_text(name)
        self._tails = {}

    def set_clock(self, now_us: int) -> None:
        """When records are encoded from now on; once for a batch."""
        self._now_us = now_us
        self._tails = {}

    def close(self, writer: BytesWriter, plan: Plan | None, lsn: int, op: str) -> None:
        """Append everything from `source` to the closing brace."""
        digits = b"%d" % lsn
        writer.write(self._head_of(plan))
        writer.write(digits)
        writer.write(self._middle)
        writer.write(digits)
        writer.write(self._after_lsn)
        writer.write(b"%d" % self.seq)
        writer.write(self._tail(op))

    def _head_of(self, plan: Plan | None) -> bytes:
        if plan is None:
            return self._source_head(self._no_table)
        if plan.source_of != self._serial:
            plan.source_head = self._source_head(plan.source_names)
            plan.source_of = self._serial
        return plan.source_head

    def _source_head(self, names: bytes) -> bytes:
        return b"".join(
            (
                b',"source":',
                self._head,
                self._times,
                b',"snapshot":"false","db":',
                self._database,
                names,
                b',"txId":',
                self.xid,
                b',"lsn":',
            )
        )

    def _tail(self, op: str) -> bytes:
        tail = self._tails.get(op)
        if tail is None:
            now = self._now_us
            tail = b',"origin":%b},"op":"%b","ts_ms":%d,"ts_us":%d,"transaction":null}' % (
                self._origin,
                op.encode(),
                now // 1000,
                now,
            )
            self._tails[op] = tail
        return tail
