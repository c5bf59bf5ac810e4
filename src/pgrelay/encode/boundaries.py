"""The transaction topic: BEGIN and END of every transaction that has records, and each record's place in it.

Shapes: Debezium's "Transaction metadata", with the commit LSN added. Events are counted by `seq`: a truncate
that goes to several partitions counts once, and a tombstone not at all. BEGIN, END and records share one id.
"""

from pgrelay.encode.envelope import Envelope
from pgrelay.encode.json_text import json_array, json_name
from pgrelay.encode.records import Record, SchemaHeader


class Boundaries:
    """Counts one transaction's events by collection, and writes the records at its two ends."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.schema_header = SchemaHeader()
        self._counts: dict[str, int] = {}

    def begin(self) -> None:
        self._counts = {}

    @property
    def has_records(self) -> bool:
        """The transaction has had a record."""
        return bool(self._counts)

    def place(self, collection: str, envelope: Envelope) -> bytes:
        """What the next event's record says about the transaction: its place in it."""
        return self._place(envelope, self._counts.get(collection, 0) + 1)

    def count(self, collection: str) -> None:
        """The next event has become a record."""
        self._counts[collection] = self._counts.get(collection, 0) + 1

    def begin_record(self, envelope: Envelope) -> Record:
        return self._record(envelope, "BEGIN", None)

    def end_record(self, envelope: Envelope) -> Record:
        return self._record(envelope, "END", self._counts)

    def _record(self, envelope: Envelope, status: str, counts: dict[str, int] | None) -> Record:
        # One partition, so that transactions come in commit order.
        return (self.topic, self._key(envelope), self._value(envelope, status, counts), None, 0)

    def _place(self, envelope: Envelope, order: int) -> bytes:
        place = b'{"id":"%b","total_order":%d,"data_collection_order":%d}'
        return place % (transaction_id(envelope), envelope.seq + 1, order)

    def _key(self, envelope: Envelope) -> bytes:
        return b'{"id":"%b"}' % transaction_id(envelope)

    def _value(self, envelope: Envelope, status: str, counts: dict[str, int] | None) -> bytes:
        """`counts`: how many events each collection has had; only END has them."""
        events, collections = b"null", b"null"
        if counts is not None:
            events = b"%d" % sum(counts.values())
            collections = json_array(
                [
                    b'{"data_collection":%b,"event_count":%d}' % (json_name(name), count)
                    for name, count in counts.items()
                ]
            )
        value = b'{"status":"%b","id":"%b","event_count":%b,"data_collections":%b,"ts_ms":%d,"commit_lsn":%d}'
        return value % (
            status.encode(),
            transaction_id(envelope),
            events,
            collections,
            envelope.commit_us // 1000,
            envelope.commit_lsn,
        )


def transaction_id(envelope: Envelope) -> bytes:
    """A transaction's id: xid and commit LSN, as in 754:24381000."""
    return b"%b:%d" % (envelope.xid_text, envelope.commit_lsn)
