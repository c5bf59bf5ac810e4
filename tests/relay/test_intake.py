"""How much is read from the socket at a time, and when a keepalive is answered. There is no server."""

from typing import cast

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.errors import ProtocolError, SourceUnavailable
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.intake import Intake
from pgrelay.relay.silence import Silence
from tests.clock import Clock
from tests.wire import build


class FakeSource(Source):
    """Each read gives the next of these; then the server ends the stream."""

    def __init__(self, *reads: list[bytes]) -> None:
        super().__init__("")
        self.hears = False
        self._reads = list(reads)

    def take_bytes_arrived(self) -> bool:
        return self.hears

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        if not self._reads:
            raise SourceUnavailable("the server ended the stream")
        return self._reads.pop(0)


class FakeAssembler:
    """Takes whatever frames are read, and counts them. Compiled, the real one has no heirs."""

    replaying = False
    server_lsn = 0

    def __init__(self) -> None:
        self.frames = 0

    def receive_all(self, frames: list[bytes], start: int) -> int:
        self.frames = len(frames) - start
        return len(frames)


class FakeConfirmations(Confirmations):
    """Counts the status updates that the server requested, and those that request a reply."""

    def __init__(self, source: Source, ledger: Ledger) -> None:
        super().__init__(source, ledger, AtLeastOnce(cast(Sink, None), ledger, None), 10.0)
        self.replies = self.requests = 0

    def request_reply(self) -> None:
        self.requests += 1

    def reply(self) -> None:
        self.replies += 1


class Reading(Intake):
    """Reads from a server that sends these."""

    def __init__(self, *reads: list[bytes]) -> None:
        source = self.source = FakeSource(*reads)
        ledger = Ledger()
        self.assembler = FakeAssembler()
        self.confirmations = FakeConfirmations(source, ledger)
        self.silence = Silence()
        super().__init__(source, cast(Assembler, self.assembler), ledger, self.confirmations, self.silence)

    def frames(self, behind: bool = False) -> int:
        """The number of frames that are taken in next."""
        self.behind = self.behind or behind
        return self.assembler.frames if self.take_in() else 0


def transactions(number: int) -> list[list[bytes]]:
    """As the server sends them to a client that is not behind: with a keepalive after each."""
    return [[b"w" * 30, build.keepalive(lsn, reply=lsn == 2)] for lsn in range(1, number + 1)]


@pytest.mark.parametrize(("behind", "then"), [(True, 6), (False, 2)], ids=["behind", "not behind"])
def test_frames_that_have_piled_up_are_read_together(behind: bool, then: int) -> None:
    """So the new tables in them are asked for together."""
    reading = Reading(*transactions(4), [])
    assert reading.frames() == 2
    assert reading.frames(behind) == then
    assert reading.confirmations.replies == 1


def test_what_has_been_caught_up_with_is_behind_no_more() -> None:
    reading = Reading(*transactions(2), [], *transactions(2))
    assert reading.frames(behind=True) == 4
    assert reading.frames() == 2


def test_frames_read_together_are_at_most_a_slice() -> None:
    reading = Reading(*transactions(1000), [])
    assert reading.frames(behind=True) == 500
    reading = Reading(*([bytes(100_000), build.keepalive(1)] for _ in range(9)), [])
    assert reading.frames(behind=True) == 6


def test_the_end_of_a_stream_comes_after_the_frames_before_it() -> None:
    reading = Reading(*transactions(2))
    assert reading.frames(behind=True) == 4
    with pytest.raises(SourceUnavailable):
        reading.frames()


def test_a_keepalive_that_can_not_be_read_drops_no_frames_before_it() -> None:
    """The session ends with them: read on, the stream would confirm past them."""
    reading = Reading(*transactions(1), [b"w" * 30, build.keepalive(2)[:-1]], *transactions(1))
    with pytest.raises(ProtocolError, match="PrimaryKeepalive"):
        reading.frames(behind=True)
    assert reading.assembler.frames == 0


def test_a_server_that_is_silent_is_asked_for_an_answer(clock: Clock) -> None:
    reading = Reading([], [], [b"w" * 30], [])
    clock.now += 5
    reading.frames()
    clock.now += 5
    reading.frames()
    assert reading.confirmations.requests == 1
    clock.now += 5
    reading.frames()
    clock.now += 5
    reading.frames()
    assert reading.confirmations.requests == 1, "it was heard meanwhile"


def test_a_part_of_a_large_message_breaks_the_silence(clock: Clock) -> None:
    reading = Reading(*[[]] * 20)
    for _ in range(20):
        clock.now += 5
        reading.source.hears = True
        reading.frames()
    assert reading.confirmations.requests == 0
