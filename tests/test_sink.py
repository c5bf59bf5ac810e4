"""When records are sent without lingering. No broker is there: they stay in the producer."""

from collections.abc import Iterator

import pytest

from pgrelay.config import Sink as SinkConfig
from pgrelay.encode.records import BY_KEY
from pgrelay.progress import InFlight
from pgrelay.sink import Sink

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


class Clock:
    """What the sink sees as the module `time`; in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pgrelay.sink.time", clock)
    return clock


@pytest.fixture
def sink(clock: Clock) -> Iterator[Sink]:
    sink = Sink(SinkConfig(kafka=NOBODY))
    yield sink
    sink.close()


def produce(sink: Sink) -> None:
    inflight = InFlight(None, 1)
    assert sink.produce([("t", b"k", b"v", None, BY_KEY)], 0, sink.delivery(inflight, 1)) == 1


def test_what_follows_waits_for_the_acknowledgement_of_what_was_sent(sink: Sink) -> None:
    produce(sink)
    assert sink.hurry()
    produce(sink)
    assert not sink.hurry()


def test_what_takes_long_is_sent_along_with_what_followed(sink: Sink, clock: Clock) -> None:
    produce(sink)
    assert sink.hurry()
    produce(sink)
    clock.now += 0.009
    assert not sink.hurry()
    clock.now += 0.002
    assert sink.hurry()


@pytest.mark.parametrize("option", ["linger.ms", "queue.buffering.max.ms"])
def test_a_configured_linger_stands(option: str, clock: Clock) -> None:
    sink = Sink(SinkConfig(kafka={**NOBODY, option: "5"}))
    produce(sink)
    assert not sink.hurry()
    sink.close()
