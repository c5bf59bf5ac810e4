"""What the delivery guarantee is told of transactions and positions. There is no server."""

from pgrelay.assembly.events import TransactionBegin, Watermark
from pgrelay.encode.records import BY_KEY, Record, Segment
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.entries import Entries
from pgrelay.relay.outbox import Outbox
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import sink_of

RECORD: Record = ("t", None, b"v", None, BY_KEY)


class FakeGuarantee(AtLeastOnce):
    """Records what it is told: where an entry ends, how far its records reach, and if it has any."""

    def __init__(self) -> None:
        self.notified: list[tuple[InFlight, int, bool]] = []

    def on_entry(self, entry: InFlight, min_wal_end: int, *, has_records: bool) -> None:
        self.notified.append((entry, min_wal_end, has_records))


class Entrance:
    """Everything that an entry needs."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.note_wal_end(20)
        self.outbox = Outbox()
        self.guarantee = FakeGuarantee()
        self.entries = Entries(sink_of(FakeProducer()), self.ledger, self.outbox, self.guarantee)

    def enter(
        self, begin: TransactionBegin | None, records: list[Record], end_lsn: int | None
    ) -> tuple[int, bool]:
        """Enter a segment. Returns how far its records reach, and if it has any, as the guarantee is told."""
        segment = Segment(begin)
        segment.records = records
        segment.end_lsn = end_lsn
        self.entries.enter([segment])
        return self.guarantee.notified[-1][1:]


def test_whoever_has_a_record_has_received_wal_past_the_beginning_of_its_commit() -> None:
    entrance = Entrance()
    assert entrance.enter(TransactionBegin(700, 3, 0), [], 4) == (4, False)
    assert entrance.enter(TransactionBegin(701, 5, 0), [RECORD], 9) == (6, True)
    message = TransactionBegin(None, 9, 0)
    assert entrance.enter(message, [RECORD], 9) == (9, True), "it ends there"
    assert entrance.ledger.flush_lsn == 0


def test_a_transaction_continues_in_later_segments() -> None:
    entrance = Entrance()
    assert entrance.enter(TransactionBegin(700, 5, 0), [], None) == (6, False)
    assert entrance.ledger.in_transaction
    assert entrance.enter(None, [RECORD], None) == (6, True)
    assert entrance.enter(None, [RECORD], 9) == (6, True)
    assert not entrance.ledger.in_transaction
    assert entrance.ledger.ended_lsn == 9
    first, *others = (entry for entry, _, _ in entrance.guarantee.notified)
    assert all(entry is first for entry in others)
    assert first.records == 2
    assert entrance.outbox


def test_a_position_enters_without_records() -> None:
    entrance = Entrance()
    entrance.entries.enter([Watermark(12)])
    assert [(entry.end_lsn, *notified) for entry, *notified in entrance.guarantee.notified] == [
        (12, 12, False)
    ]
    assert not entrance.outbox


def test_a_position_within_a_transaction_does_not_enter() -> None:
    entrance = Entrance()
    entrance.enter(TransactionBegin(700, 5, 0), [RECORD], None)
    entrance.entries.enter([Watermark(4)])
    assert len(entrance.guarantee.notified) == 1
