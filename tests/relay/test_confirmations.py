"""When positions are confirmed to the server. There is no server."""

from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import sink_of


class FakeSource(Source):
    """Its server accepts status updates, or none."""

    def __init__(self) -> None:
        self.takes = True
        self.replies: list[bool] = []

    def send_status(self, received_lsn: int, flush_lsn: int, *, reply: bool = False) -> bool:
        self.replies.append(reply)
        return self.takes


class NotingGuarantee(AtLeastOnce):
    """Notes for each position whether it must be written at once."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(sink_of(FakeProducer()), ledger, None)
        self.at_once: list[bool] = []

    def write_position(self, *, at_once: bool) -> None:
        self.at_once.append(at_once)


def confirmations_of(source: Source) -> Confirmations:
    """Kafka has everything up to LSN 0x100, and keeps no position."""
    ledger = Ledger(0x100)
    return Confirmations(source, ledger, AtLeastOnce(sink_of(FakeProducer()), ledger, None), 10.0)


def test_a_server_that_accepts_no_status_is_retried_after_a_rest() -> None:
    """For example, it has ended the stream while earlier records still wait for Kafka."""
    source = FakeSource()
    confirmations = confirmations_of(source)
    source.takes = False
    confirmations.turn()
    assert confirmations.due_in_s() > 0
    assert confirmations.confirmed_lsn == 0
    source.takes = True
    confirmations.send()
    assert confirmations.confirmed_lsn == 0x100


def test_the_server_is_asked_for_one_answer_as_soon_as_it_takes_the_question() -> None:
    source = FakeSource()
    confirmations = confirmations_of(source)
    confirmations.turn()
    confirmations.request_reply()
    source.takes = False
    confirmations.turn()
    source.takes = True
    confirmations.send()
    confirmations.send()
    assert source.replies == [False, True, True, False]


def test_a_server_that_asks_is_not_kept_waiting_for_the_position() -> None:
    """As it stops, it asks until its slot has moved to the end of WAL."""
    ledger = Ledger(0x100)
    guarantee = NotingGuarantee(ledger)
    confirmations = Confirmations(FakeSource(), ledger, guarantee, 10.0)
    confirmations.turn()
    guarantee.at_once.clear()
    confirmations.turn()
    confirmations.reply()
    confirmations.turn()
    confirmations.turn()
    assert guarantee.at_once == [False, True, False]
