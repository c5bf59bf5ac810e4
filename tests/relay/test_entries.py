"""The LSN up to which records have entered, before Kafka acknowledges any. There is no server."""

from pgrelay.assembly.events import Reached, TransactionBegin
from pgrelay.encode.records import BY_KEY, Record, Segment
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.commits import Commits
from pgrelay.relay.entries import Entries
from pgrelay.relay.outbox import Outbox

RECORD: Record = ("t", None, b"v", None, BY_KEY)


class FakeSink(Sink):
    """No producer: whatever enters waits in the outbox."""

    def __init__(self) -> None:
        pass


class FakeCommits(Commits):
    """Records what it was given to hold: a transaction with records, or only a position."""

    def __init__(self) -> None:
        self.held: list[tuple[InFlight, bool]] = []

    def hold(self, entry: InFlight, records: bool) -> None:
        self.held.append((entry, records))


class Entrance:
    """Everything that an entry needs."""

    def __init__(self, commits: Commits | None = None) -> None:
        self.ledger = Ledger()
        self.ledger.seen(20)
        self.outbox = Outbox()
        self.entries = Entries(FakeSink(), self.ledger, self.outbox, commits)

    def relayed(self, begin: TransactionBegin | None, records: list[Record], end_lsn: int | None) -> int:
        segment = Segment(begin)
        segment.records = records
        segment.end_lsn = end_lsn
        self.entries.enter([segment])
        return self.entries.relayed_lsn


def test_the_relayed_lsn_advances_before_kafka_acknowledges() -> None:
    entrance = Entrance()
    assert entrance.relayed(TransactionBegin(700, 3, 0), [], 4) == 0
    assert entrance.relayed(TransactionBegin(701, 5, 0), [RECORD], 9) == 6
    assert entrance.relayed(TransactionBegin(None, 9, 0), [RECORD], 9) == 9  # a message, which ends there
    assert entrance.ledger.flush_lsn == 0


def test_a_transaction_continues_in_later_segments() -> None:
    entrance = Entrance()
    assert entrance.relayed(TransactionBegin(700, 5, 0), [], None) == 0
    assert entrance.ledger.in_transaction
    assert entrance.relayed(None, [RECORD], None) == 6
    assert entrance.relayed(None, [RECORD], 9) == 6
    assert not entrance.ledger.in_transaction
    assert entrance.ledger.ended_lsn == 9


def test_with_exactly_once_nothing_counts_as_relayed_before_its_commit() -> None:
    commits = FakeCommits()
    entrance = Entrance(commits)
    assert entrance.relayed(TransactionBegin(701, 5, 0), [RECORD], 9) == 0
    entrance.entries.enter([Reached(12)])
    assert [(entry.end_lsn, records) for entry, records in commits.held] == [(9, True), (12, False)]
    assert entrance.outbox


def test_with_exactly_once_commits_learn_which_transactions_have_records() -> None:
    commits = FakeCommits()
    entrance = Entrance(commits)
    entrance.relayed(TransactionBegin(700, 3, 0), [], 4)
    entrance.relayed(TransactionBegin(701, 5, 0), [], None)
    entrance.relayed(None, [RECORD], 9)
    assert [records for _, records in commits.held] == [False, False, True]
