"""When a silent stream is given up: the server, once asked, has answered, and we got nothing."""

import pytest

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.silence import Silence
from tests.clock import Clock

pytestmark = pytest.mark.usefixtures("clock")


@pytest.fixture
def silence(clock: Clock) -> Silence:
    return Silence()


def look(waits: bool, asked_at: float) -> SlotWal:
    event = "WalSenderMain" if waits else None
    return SlotWal(asked_at, 0x9000, 0x1000, 0x800, float("inf"), event)


def listen(silence: Silence, clock: Clock, seconds: int, *, waits: bool, asked_at: float = 0) -> list[int]:
    """A turn each second, in which nothing comes. The seconds at which the server is asked for an answer.

    Elsewhere it was last asked at `asked_at`, by default in the same turn.
    """
    asked = []
    for _ in range(seconds):
        clock.now += 1
        if silence.must_request_reply():
            asked.append(int(clock.now) - 1000)
        silence.check(look(waits, asked_at or clock.now))
    return asked


def test_a_silent_server_is_asked_every_ten_seconds(silence: Silence, clock: Clock) -> None:
    assert listen(silence, clock, 25, waits=True) == [10, 20]
    silence.reset()
    assert listen(silence, clock, 25, waits=True) == [35, 45]


def test_an_idle_walsender_whose_answer_never_comes_is_given_up(silence: Silence, clock: Clock) -> None:
    with pytest.raises(SourceUnavailable, match="though its walsender is idle: something in between loses"):
        listen(silence, clock, 60, waits=True)
    assert clock.now == 1030


def test_what_the_walsender_did_before_the_question_proves_nothing(silence: Silence, clock: Clock) -> None:
    """With thousands of tables, the server is asked elsewhere only now and then."""
    listen(silence, clock, 9, waits=True)
    listen(silence, clock, 100, waits=True, asked_at=1009)
    listen(silence, clock, 100, waits=True, asked_at=1105)
    with pytest.raises(SourceUnavailable):
        listen(silence, clock, 1, waits=True, asked_at=1205)


def test_a_walsender_that_decodes_may_be_silent_for_long(silence: Silence, clock: Clock) -> None:
    """Rows of tables that are not published, by the million."""
    listen(silence, clock, 600, waits=False)
    listen(silence, clock, 9, waits=True)
    silence.reset()
    listen(silence, clock, 29, waits=True)


def test_a_single_look_at_the_walsender_proves_nothing(silence: Silence, clock: Clock) -> None:
    for _ in range(20):
        listen(silence, clock, 5, waits=True)
        listen(silence, clock, 5, waits=False)


def test_a_walsender_that_waits_for_us_to_read_is_not_given_up(silence: Silence, clock: Clock) -> None:
    """While Kafka is away, we read nothing: what came meanwhile lies in the socket."""
    listen(silence, clock, 15, waits=True)
    for _ in range(120):
        clock.now += 1
        silence.check(look(True, clock.now))
    listen(silence, clock, 29, waits=True)
    silence.reset()
