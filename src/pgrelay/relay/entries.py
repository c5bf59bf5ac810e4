"""Enters what was encoded: into the ledger, which counts records, and the outbox, which holds them."""

from collections.abc import Iterable

from pgrelay.assembly.events import Watermark
from pgrelay.encode.records import Segment
from pgrelay.handover import Delivery
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.guarantee import DeliveryGuarantee
from pgrelay.relay.outbox import Outbox


class Entries:
    """Enters the transactions and positions of one session, and notifies the delivery guarantee of each."""

    def __init__(self, sink: Sink, ledger: Ledger, outbox: Outbox, guarantee: DeliveryGuarantee) -> None:
        self._sink = sink
        self._ledger = ledger
        self._outbox = outbox
        self._guarantee = guarantee
        # Those of the current transaction.
        self._entry: InFlight | None = None
        self._delivery: Delivery | None = None
        self._min_wal_end = 0

    def enter(self, encoded: Iterable[Segment | Watermark]) -> None:
        for out in encoded:
            if isinstance(out, Watermark):
                self._enter_position(out.lsn)
            else:
                self._enter_segment(out)

    def _enter_position(self, lsn: int) -> None:
        position = self._ledger.enter_position(lsn)
        if position is not None:
            self._guarantee.on_entry(position, lsn, has_records=False)

    def _enter_segment(self, segment: Segment) -> None:
        if segment.begin is not None:
            self._entry = self._ledger.begin(segment.begin.commit_us)
            self._delivery = self._sink.delivery(self._entry, segment.begin.commit_lsn)
            # A commit record begins at that LSN; a message outside transactions ends there.
            self._min_wal_end = segment.begin.commit_lsn + (segment.begin.xid is not None)
        entry, delivery = self._entry, self._delivery
        assert entry is not None, "a segment continues no transaction"
        assert delivery is not None
        self._guarantee.on_entry(entry, self._min_wal_end, has_records=bool(segment.records))
        records = segment.records
        if segment.has_truncate:
            records = self._sink.topics.to_every_partition(records)
        if records:
            entry.records += len(records)
            self._outbox.add(delivery, records)
        if segment.end_lsn is not None:
            self._ledger.end(segment.end_lsn)
            self._entry = self._delivery = None
