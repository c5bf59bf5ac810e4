"""When positions are confirmed to the server. There is no server."""

from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.confirmations import Confirmations


class FakeSource(Source):
    """Its server accepts status updates, or none."""

    def __init__(self) -> None:
        self.takes = True
        self.replies: list[bool] = []

    def send_status(self, received_lsn: int, flush_lsn: int, *, reply: bool = False) -> bool:
        self.replies.append(reply)
        return self.takes


def test_a_server_that_accepts_no_status_is_retried_after_a_rest() -> None:
    """For example, it has ended the stream while earlier records still wait for Kafka."""
    source = FakeSource()
    confirmations = Confirmations(source, Ledger(0x100), None, 10.0)
    source.takes = False
    confirmations.turn()
    assert confirmations.rest_s() > 0
    assert confirmations.confirmed_lsn == 0
    source.takes = True
    confirmations.send()
    assert confirmations.confirmed_lsn == 0x100


def test_the_server_is_asked_for_one_answer_as_soon_as_it_takes_the_question() -> None:
    source = FakeSource()
    confirmations = Confirmations(source, Ledger(0x100), None, 10.0)
    confirmations.turn()
    confirmations.ask()
    source.takes = False
    confirmations.turn()
    source.takes = True
    confirmations.send()
    confirmations.send()
    assert source.replies == [False, True, True, False]
