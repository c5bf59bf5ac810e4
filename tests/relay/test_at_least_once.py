"""At least once: what consumers may have, and what is worth waiting for. There is no broker."""

from confluent_kafka import KafkaError

from pgrelay.kafka.sink import Sink
from pgrelay.postgres.source import Source
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import record, sink_of


def guarantee_of(sink: Sink, ledger: Ledger) -> AtLeastOnce:
    return AtLeastOnce(sink, ledger, Confirmations(Source(""), ledger, None, 10.0))


def test_consumers_may_have_records_before_kafka_acknowledges_them() -> None:
    guarantee = guarantee_of(sink_of(FakeProducer()), Ledger())
    entry = InFlight(0)
    guarantee.entered(entry, 4, has_records=False)
    assert guarantee.relayed_lsn == 0
    guarantee.entered(entry, 6, has_records=True)
    guarantee.entered(entry, 9, has_records=False)
    assert guarantee.relayed_lsn == 6


def test_an_ended_transaction_is_waited_for_until_it_is_acknowledged() -> None:
    sink, ledger = sink_of(FakeProducer()), Ledger()
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
    sink, ledger = sink_of(FakeProducer()), Ledger()
    guarantee = guarantee_of(sink, ledger)
    ledger.seen(5)
    entry = ledger.begin(0)
    entry.records = 2
    ledger.end(5)
    assert not guarantee.may_settle(refused=True)
    sink.produce([record("t")], 0, sink.delivery(entry, 4))
    assert guarantee.may_settle(refused=True)
    sink.failures.complain(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    assert not guarantee.may_settle(refused=True)
