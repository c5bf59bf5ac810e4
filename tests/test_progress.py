"""The ledger: what may be confirmed, whatever the order of Kafka's acknowledgements."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pgrelay.errors import ProtocolError
from pgrelay.progress import InFlight, Ledger


def begun(ledger: Ledger, records: int, commit_us: int = 0) -> InFlight:
    """A transaction with this many records, none of them acknowledged."""
    inflight = ledger.begin(commit_us)
    inflight.records = records
    return inflight


def ended(ledger: Ledger, records: int, end_lsn: int, commit_us: int = 0) -> InFlight:
    inflight = begun(ledger, records, commit_us)
    ledger.note_wal_end(end_lsn)
    ledger.end(end_lsn)
    return inflight


def reached(ledger: Ledger, lsn: int) -> None:
    ledger.note_wal_end(lsn)
    ledger.enter_position(lsn)


# --- Transactions


def test_a_ledger_begins_where_the_slot_stands() -> None:
    ledger = Ledger(0x100)
    assert (ledger.flush_lsn, ledger.server_lsn) == (0x100, 0x100)
    assert ledger.idle
    assert ledger.advance() == []


def test_a_transaction_is_confirmed_at_its_end_when_every_record_is_acknowledged() -> None:
    ledger = Ledger()
    inflight = ended(ledger, 2, 0x200)
    for acknowledged in (0, 1):
        inflight.acknowledged = acknowledged
        assert ledger.advance() == []
        assert ledger.flush_lsn == 0
    inflight.acknowledged = 2
    assert ledger.advance() == [inflight]
    assert ledger.flush_lsn == 0x200
    assert ledger.idle


def test_standing_moves_with_each_acknowledgement_of_the_oldest() -> None:
    ledger = Ledger(0x100)
    assert ledger.oldest_progress is None
    oldest, newer = ended(ledger, 2, 0x200), ended(ledger, 1, 0x300)
    assert ledger.oldest_progress == (0x100, 0)
    newer.acknowledged = 1
    assert ledger.oldest_progress == (0x100, 0)
    oldest.acknowledged = 1
    assert ledger.oldest_progress == (0x100, 1)
    oldest.acknowledged = 2
    assert ledger.oldest_progress is None


def test_a_transaction_is_not_confirmed_before_its_end() -> None:
    ledger = Ledger()
    inflight = begun(ledger, 3)
    inflight.acknowledged = 3
    assert ledger.advance() == []
    ledger.note_wal_end(0x200)
    ledger.end(0x200)
    assert ledger.advance() == [inflight]


def test_a_transaction_without_records_is_done_at_its_end() -> None:
    ledger = Ledger()
    ended(ledger, 0, 0x200)
    ledger.advance()
    assert ledger.flush_lsn == 0x200


def test_a_waiting_transaction_holds_back_everything_behind_it() -> None:
    ledger = Ledger()
    first, second, third = (ended(ledger, 1, lsn) for lsn in (0x200, 0x300, 0x400))
    third.acknowledged = second.acknowledged = 1
    reached(ledger, 0x500)
    assert ledger.advance() == []
    assert ledger.flush_lsn == 0
    first.acknowledged = 1
    assert ledger.advance() == [first, second, third]
    assert ledger.flush_lsn == 0x500


# --- Positions


def test_a_position_is_confirmed_if_nothing_is_outstanding() -> None:
    """So the server can remove WAL if the publication is idle but the server busy."""
    ledger = Ledger()
    reached(ledger, 0x300)
    assert ledger.advance() == []
    assert ledger.flush_lsn == 0x300


def test_a_position_waits_behind_what_is_outstanding() -> None:
    ledger = Ledger()
    inflight = ended(ledger, 1, 0x200)
    reached(ledger, 0x300)
    reached(ledger, 0x400)
    ledger.advance()
    assert ledger.flush_lsn == 0
    inflight.acknowledged = 1
    ledger.advance()
    assert ledger.flush_lsn == 0x400


def test_a_position_in_the_middle_of_a_transaction_is_ignored() -> None:
    ledger = Ledger()
    inflight = begun(ledger, 1)
    ledger.note_wal_end(0x900)
    assert ledger.enter_position(0x900) is None
    ledger.end(0x200)
    inflight.acknowledged = 1
    ledger.advance()
    assert ledger.flush_lsn == 0x200


def test_a_position_may_be_held_like_a_transaction() -> None:
    """Exactly once: the position goes to the offsets topic before Postgres gets it."""
    ledger = Ledger()
    ledger.note_wal_end(0x300)
    position = ledger.enter_position(0x300)
    assert position is not None
    position.records += 1
    ledger.advance()
    assert ledger.flush_lsn == 0
    position.acknowledged += 1
    assert ledger.advance() == []
    assert ledger.flush_lsn == 0x300


def test_adjacent_positions_are_merged() -> None:
    ledger = Ledger()
    ledger.note_wal_end(0x400)
    first = ledger.enter_position(0x300)
    assert ledger.enter_position(0x400) is first
    inflight = ended(ledger, 1, 0x500)
    ledger.note_wal_end(0x600)
    assert ledger.enter_position(0x600) not in (None, first, inflight)


def test_positions_that_move_back_change_nothing() -> None:
    ledger = Ledger(0x100)
    reached(ledger, 0x50)
    ledger.advance()
    assert ledger.flush_lsn == 0x100
    reached(ledger, 0x300)
    reached(ledger, 0x200)
    ledger.advance()
    assert ledger.flush_lsn == 0x300


# --- Never beyond what the server has named


@pytest.mark.parametrize("lsn", [0x302, 2**64 - 1])
def test_a_position_beyond_the_servers_wal_is_refused(lsn: int) -> None:
    ledger = Ledger()
    ledger.note_wal_end(0x300)
    with pytest.raises(ProtocolError, match=r"refusing to confirm LSN .*: it lies beyond 0/300"):
        ledger.enter_position(lsn)
    ledger.begin(0)
    with pytest.raises(ProtocolError, match=r"refusing to confirm LSN .*: it lies beyond 0/300"):
        ledger.end(lsn)


def test_the_servers_lsn_never_moves_back() -> None:
    ledger = Ledger(0x100)
    ledger.note_wal_end(0x300)
    ledger.note_wal_end(0x200)
    assert ledger.server_lsn == 0x300


# --- What others read


def test_a_ledger_is_waiting_if_only_kafka_can_end_it() -> None:
    ledger = Ledger()
    assert not ledger.has_unacknowledged
    begun(ledger, 1)
    assert not ledger.has_unacknowledged
    assert not ledger.idle
    ledger.note_wal_end(0x200)
    ledger.end(0x200)
    assert ledger.has_unacknowledged


def test_ended_lsn_does_not_depend_on_acknowledgements() -> None:
    ledger = Ledger(0x100)
    assert ledger.ended_lsn == 0x100
    ended(ledger, 1, 0x200)
    assert ledger.ended_lsn == 0x200
    reached(ledger, 0x300)
    assert ledger.ended_lsn == 0x300
    begun(ledger, 1)
    reached(ledger, 0x400)
    assert ledger.ended_lsn == 0x300
    assert ledger.flush_lsn == 0x100


def test_a_ledger_is_in_a_transaction_until_its_end() -> None:
    ledger = Ledger()
    assert not ledger.in_transaction
    begun(ledger, 1)
    assert ledger.in_transaction
    ledger.note_wal_end(0x200)
    ledger.end(0x200)
    assert not ledger.in_transaction


def test_the_oldest_commit_is_that_of_the_first_transaction_that_waits() -> None:
    ledger = Ledger()
    reached(ledger, 0x100)
    assert ledger.oldest_commit_us is None
    first = ended(ledger, 1, 0x200, commit_us=20)
    ended(ledger, 1, 0x300, commit_us=10)
    assert ledger.oldest_commit_us == 20
    first.acknowledged = 1
    ledger.advance()
    assert ledger.oldest_commit_us == 10


def test_a_ledger_may_be_full_of_acknowledged_transactions() -> None:
    """One partition may acknowledge nothing for hours while the others acknowledge everything."""
    ledger = Ledger(max_entries=3)
    stuck = ended(ledger, 1, 0x200)
    ended(ledger, 0, 0x300)
    ledger.advance()
    assert not ledger.full
    ended(ledger, 0, 0x400)
    ledger.advance()
    assert ledger.full
    stuck.acknowledged = 1
    ledger.advance()
    assert not ledger.full


def test_transactions_do_not_nest() -> None:
    ledger = Ledger()
    with pytest.raises(AssertionError, match="never began"):
        ledger.end(0)
    ledger.begin(0)
    with pytest.raises(AssertionError, match="inside another"):
        ledger.begin(0)


# --- Any order at all


@dataclass
class Expected:
    """The expected state of a transaction in the ledger or, without `inflight`, of a position."""

    end_lsn: int | None
    inflight: InFlight | None = None

    @property
    def done(self) -> bool:
        whole = self.inflight is None or self.inflight.acknowledged == self.inflight.records
        return self.end_lsn is not None and whole


class AnyOrder(RuleBasedStateMachine):
    """Transactions in commit order, acknowledgements in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(0x100)
        self.lsn = 0x100
        self.entries: list[Expected] = []
        self.open: Expected | None = None
        self.highest = 0x100

    def advance_wal(self, by: int) -> int:
        self.lsn += by
        self.ledger.note_wal_end(self.lsn)
        return self.lsn

    @precondition(lambda self: self.open is None)
    @rule()
    def begin(self) -> None:
        self.open = Expected(None, self.ledger.begin(0))
        self.entries.append(self.open)

    @precondition(lambda self: self.open is not None)
    @rule(records=st.integers(1, 3))
    def encode(self, records: int) -> None:
        assert self.open is not None
        assert self.open.inflight is not None
        self.open.inflight.records += records

    @precondition(lambda self: self.open is not None)
    @rule(size=st.integers(1, 100))
    def end(self, size: int) -> None:
        assert self.open is not None
        self.open.end_lsn = self.advance_wal(size)
        self.ledger.end(self.open.end_lsn)
        self.open = None

    @rule(size=st.integers(0, 100))
    def keepalive(self, size: int) -> None:
        lsn = self.advance_wal(size)
        self.ledger.enter_position(lsn)
        if self.open is None:
            self.entries.append(Expected(lsn))

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        inflight = [entry.inflight for entry in self.entries if entry.inflight is not None]
        outstanding = [it for it in inflight if it.acknowledged < it.records]
        if outstanding:
            data.draw(st.sampled_from(outstanding)).acknowledged += 1

    @rule()
    def acknowledge_everything(self) -> None:
        for entry in self.entries:
            if entry.inflight is not None:
                entry.inflight.acknowledged = entry.inflight.records

    @rule()
    def advance(self) -> None:
        before = self.ledger.flush_lsn
        passed = self.ledger.advance()
        assert self.ledger.flush_lsn >= before
        gone = [self.entries.pop(0) for _ in range(self.done_prefix())]
        assert passed == [entry.inflight for entry in gone if entry.inflight is not None]
        self.highest = max([self.highest, *(entry.end_lsn for entry in gone if entry.end_lsn is not None)])
        assert self.ledger.flush_lsn == self.highest

    def done_prefix(self) -> int:
        waiting = (index for index, entry in enumerate(self.entries) if not entry.done)
        return next(waiting, len(self.entries))

    @invariant()
    def nothing_unacknowledged_is_confirmed(self) -> None:
        for entry in self.entries:
            if not entry.done and entry.end_lsn is not None:
                assert self.ledger.flush_lsn < entry.end_lsn

    @invariant()
    def nothing_is_confirmed_beyond_the_servers_wal(self) -> None:
        assert self.ledger.flush_lsn <= self.ledger.server_lsn

    @invariant()
    def idle_means_that_everything_is_confirmed(self) -> None:
        if self.ledger.idle:
            assert self.open is None
            assert all(entry.inflight is None or entry.done for entry in self.entries)
            assert self.ledger.flush_lsn == self.highest

    def teardown(self) -> None:
        """Once everything is acknowledged, everything is confirmed."""
        if self.open is not None:
            self.end(1)
        self.acknowledge_everything()
        self.advance()
        assert self.ledger.idle
        assert not self.entries


TestAnyOrder = AnyOrder.TestCase


def test_the_first_position_enters_even_where_the_stream_began_but_none_twice() -> None:
    """A server that is idle names no other, and Kafka may not have this one yet."""
    ledger = Ledger(0x100)
    ledger.note_wal_end(0x100)
    assert ledger.enter_position(0x100) is not None
    ledger.advance()
    assert ledger.enter_position(0x100) is None
    ledger.note_wal_end(0x200)
    assert ledger.enter_position(0x200) is not None


def test_a_position_that_a_transaction_has_reached_does_not_enter() -> None:
    ledger = Ledger(0x100)
    ended(ledger, 0, 0x200)
    assert ledger.enter_position(0x200) is None
