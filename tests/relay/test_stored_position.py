"""What a start does with the position that Kafka has, and with this process's own."""

from types import SimpleNamespace
from typing import cast

import pytest

from pgrelay.config import Config
from pgrelay.errors import GapError, PositionError, SetupError
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.offsets import Position
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.topics import TopicKind
from pgrelay.relay.server import Server
from pgrelay.relay.stored_position import check_may_create_slot, read_or_init_position
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import FakeOffsets, sink_of
from tests.relay.test_gap_checks import SLOT, upstream


class FakeTopics(KnownTopics):
    """The offsets topic exists, or may not be created; `heard`: the asked broker knows it."""

    def __init__(self, ours: bool, heard: bool) -> None:
        self._ours = ours
        self._heard = heard
        self.created = set()

    async def load(self) -> None: ...

    def __contains__(self, topic: str) -> bool:
        return self._ours and self._heard

    async def require(self, topic: str, kind: TopicKind = "rows") -> None:
        if not self._ours:
            raise SetupError("no")


class Unreadable(FakeOffsets):
    """What the topic has is no position, or it may not be read."""

    def __init__(self, error: PositionError | SetupError) -> None:
        super().__init__()
        self._error = error

    async def read(self) -> Position | None:
        raise self._error


def server_with(error: PositionError | SetupError) -> Server:
    """A server whose slot's position Kafka does not give away."""
    sections = {"source": {"dsn": "", "slot": "s"}, "sink": {"kafka": {"bootstrap.servers": "b"}}}
    config = Config.model_validate(sections)
    return cast(Server, SimpleNamespace(config=config, offsets=Unreadable(error), standby=False))


def sink_with(topics: FakeTopics) -> Sink:
    sink = sink_of(FakeProducer())
    sink.topics = topics
    return sink


async def check(kept: Position | None, known: Position | None, heard: bool = True) -> None:
    """Check the position in Kafka and this process's own against the server, as a start does."""
    found = await read_or_init_position(sink_with(FakeTopics(ours=True, heard=heard)), FakeOffsets(kept))
    await upstream().check_further(found, known)


@pytest.mark.parametrize("kept", [None, Position(SLOT - 8)], ids=["deleted", "older"])
async def test_if_kafka_knows_less_this_processs_position_counts(kept: Position | None) -> None:
    """This happens after the topic was deleted."""
    await check(kept, known=Position(SLOT))
    with pytest.raises(GapError, match="Kafka has everything only up to 0/FFF:"):
        await check(kept, known=Position(SLOT - 1))


async def test_if_kafka_knows_more_its_position_counts() -> None:
    """Another relay had the slot meanwhile, and moved it."""
    await check(Position(SLOT), known=Position(1))


async def test_a_first_start_has_nothing_to_compare_with() -> None:
    await check(None, known=None)


async def test_a_topic_unknown_to_the_asked_broker_is_read_anyway() -> None:
    """It may be cut off from the controllers. Taking the topic for a new one would hide the gap."""
    with pytest.raises(GapError, match="the slot was moved or re-created"):
        await check(Position(SLOT - 1), known=None, heard=False)


async def test_an_offsets_topic_that_may_not_be_created_is_an_error() -> None:
    with pytest.raises(SetupError, match=r"^no$"):
        await read_or_init_position(sink_with(FakeTopics(ours=False, heard=True)), FakeOffsets())


async def test_a_position_that_is_none_refuses_a_new_slot() -> None:
    """It may hide a gap. But without the right to read it, at least once does without positions."""
    sink = sink_with(FakeTopics(ours=True, heard=True))
    with pytest.raises(PositionError, match=r"^rubbish$"):
        await check_may_create_slot(sink, server_with(PositionError("rubbish")))
    await check_may_create_slot(sink, server_with(SetupError("no right to read")))
