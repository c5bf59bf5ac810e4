"""At least once: what consumers may have, and what is worth waiting for. There is no broker."""

from pgrelay.encode.records import BY_KEY
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.source import Source
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from tests.relay.sessions import TAKEN, FakeSink


def guarantee_of(sink: Sink, ledger: Ledger) -> AtLeastOnce:
    return AtLeastOnce(sink, ledger, Confirmations(Source(""), ledger, None, 10.0))


def test_consumers_may_have_records_before_kafka_acknowledges_them() -> None:
    guarantee = guarantee_of(FakeSink(), Ledger())
    entry = InFlight(0)
    guarantee.entered(entry, 4, has_records=False)
    assert guarantee.relayed_lsn == 0
    guarantee.entered(entry, 6, has_records=True)
    guarantee.entered(entry, 9, has_records=False)
    assert guarantee.relayed_lsn == 6


def test_an_ended_transaction_is_waited_for_until_it_is_acknowledged() -> None:
    sink, ledger = FakeSink(), Ledger()
    guarantee = guarantee_of(sink, ledger)
    ledger.seen(5)
    entry = ledger.begin(0)
    entry.records = 1
    assert not guarantee.may_settle(refused=False)
    assert not guarantee.awaits_confirmation
    ledger.end(5)
    assert guarantee.may_settle(refused=False)
    assert guarantee.awaits_confirmation
    entry.acknowledged = 1
    ledger.advance()
    assert not guarantee.may_settle(refused=False)
    assert not guarantee.awaits_confirmation


def test_after_a_refusal_only_reports_that_may_come_are_waited_for() -> None:
    sink, ledger = FakeSink(), Ledger()
    guarantee = guarantee_of(sink, ledger)
    ledger.seen(5)
    entry = ledger.begin(0)
    entry.records = 2
    ledger.end(5)
    assert not guarantee.may_settle(refused=True)
    sink.produce([("t", None, TAKEN, None, BY_KEY)], 0, sink.delivery(entry, 4))
    assert guarantee.may_settle(refused=True)
    sink.failures.shut_out = True
    assert not guarantee.may_settle(refused=True)
