"""Sinks without a broker, a record for them, and how many producers there are."""

import gc
from typing import Final

from confluent_kafka import Producer

from pgrelay.config import SinkConfig
from pgrelay.encode.records import BY_KEY, Record
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.progress import InFlight

NOBODY: Final = {"bootstrap.servers": "127.0.0.1:1"}


def transactional_sink() -> TransactionalSink:
    config = SinkConfig(kafka=NOBODY)
    return TransactionalSink(config, Offsets(config, "app.offsets", Identity("7", "db", "s")))


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
