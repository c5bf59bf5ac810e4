"""The transaction topic: BEGIN and END of every transaction that has records, and each record's place in it.

Shapes: Debezium's "Transaction metadata", with the commit LSN added. Events are counted by `seq`: a truncate
that goes to several partitions, or a tombstone, does not count again. One id names BEGIN, END and records.
"""

from pgrelay.encode.envelope import Envelope
from pgrelay.encode.plan import json_text
from pgrelay.encode.records import Record


class Boundaries:
    """Counts one transaction's events by collection, and writes what stands at its two ends."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._id: bytes = b""
        self._counts: dict[str, int] = {}

    def begin(self) -> None:
        self._counts = {}

    @property
    def begun(self) -> bool:
        """The transaction has had a record."""
        return bool(self._counts)

    def count(self, collection: str, envelope: Envelope) -> bytes:
        """Count the next event, and return its `transaction`, JSON."""
        order = self._counts.get(collection, 0) + 1
        self._counts[collection] = order
        return b'{"id":%b,"total_order":%d,"data_collection_order":%d}' % (
            identity(envelope),
            envelope.seq + 1,
            order,
        )

    def begin_record(self, envelope: Envelope) -> Record:
        return self._record(envelope, b"BEGIN", b"null", b"null")

    def end_record(self, envelope: Envelope) -> Record:
        counts = b",".join(
            b'{"data_collection":%b,"event_count":%d}' % (json_text(name), count)
            for name, count in self._counts.items()
        )
        return self._record(envelope, b"END", b"%d" % envelope.seq, b"[%b]" % counts)

    def _record(self, envelope: Envelope, status: bytes, events: bytes, collections: bytes) -> Record:
        name = identity(envelope)
        value = (
            b'{"status":"%b","id":%b,"event_count":%b,"data_collections":%b,"ts_ms":%d,"commit_lsn":%d}'
            % (
                status,
                name,
                events,
                collections,
                envelope.commit_us // 1000,
                envelope.commit_lsn,
            )
        )
        # One partition, so that transactions come in commit order.
        return (self.topic, b'{"id":%b}' % name, value, None, 0)


def identity(envelope: Envelope) -> bytes:
    """A transaction's id, JSON: xid and commit LSN, as in "754:24381000"."""
    return b'"%b:%d"' % (envelope.xid, envelope.commit_lsn)
