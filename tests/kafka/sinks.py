"""Sinks without a broker, a record for them, and how many producers there are."""

import asyncio
import gc
from typing import Final

from confluent_kafka import Producer

from pgrelay.config import SinkConfig
from pgrelay.encode.records import BY_KEY, Record
from pgrelay.kafka.offsets import Identity, Offsets, Position
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.progress import InFlight
from tests.kafka.producer import FakeProducer

NOBODY: Final = {"bootstrap.servers": "127.0.0.1:1"}
CONFIG: Final = SinkConfig(kafka=NOBODY)
# For a fake producer, whose broker has the topics that are asked for.
EXISTING: Final = SinkConfig(kafka=NOBODY, create_topics=False)
OFFSETS: Final = Offsets(CONFIG, "app.offsets", Identity("7", "db", "s"))


class FakeOffsets(Offsets):
    """Has what was delivered, and can be read once `readable` is set."""

    def __init__(self, delivered: Position | None = None) -> None:
        super().__init__(CONFIG, OFFSETS.topic, OFFSETS.identity)
        self.delivered = delivered
        self.readable = asyncio.Event()
        self.readable.set()

    async def read(self) -> Position | None:
        await self.readable.wait()
        return self.delivered


def transactional_sink() -> TransactionalSink:
    return TransactionalSink(CONFIG, OFFSETS)


def sink_of(kafka: FakeProducer) -> Sink:
    return Sink(EXISTING, make_clients=kafka.clients)


def transactions_of(kafka: FakeProducer, offsets: FakeOffsets | None = None) -> TransactionalSink:
    return TransactionalSink(EXISTING, offsets or FakeOffsets(), make_clients=kafka.clients)


def record(topic: str) -> Record:
    return topic, b"k", b"v", None, BY_KEY


def produce(sink: Sink, topic: str = "t") -> InFlight:
    """Produce one record, all of its transaction."""
    inflight = InFlight(None, 1)
    assert sink.produce([record(topic)], 0, sink.delivery(inflight, 1)) == 1
    return inflight


def producers() -> int:
    """How many there are in this process; each has threads and sockets."""
    gc.collect()
    return sum(isinstance(each, Producer) for each in gc.get_objects())
