"""The Kafka producer, on a real broker."""

import asyncio
import uuid

from pgrelay.config import Sink as SinkConfig
from pgrelay.encode.records import BY_KEY
from pgrelay.progress import InFlight
from pgrelay.sink import Sink
from tests.integration.servers import KafkaServer
from tests.integration.waiting import eventually

LINGERING = {"linger.ms": "60000"}  # longer than any test waits


async def produced(sink: Sink) -> InFlight:
    """One record, handed over to the producer."""
    topic = f"sink.{uuid.uuid4().hex}"
    await sink.require_topic(topic)
    inflight = InFlight(None, 1)
    assert sink.produce([(topic, b"k", b"v", None, BY_KEY)], 0, sink.delivery(inflight, 1)) == 1
    return inflight


def test_few_records_are_sent_at_once_where_there_is_nothing_else_to_do(kafka: KafkaServer) -> None:
    async def run() -> None:
        sink = Sink(SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap}), LINGERING)
        inflight = await produced(sink)

        def delivered() -> bool:
            sink.hurry()
            return inflight.acknowledged == 1

        await eventually(delivered, "the record's acknowledgement")

    asyncio.run(run())


def test_how_long_to_linger_is_as_the_configuration_says(kafka: KafkaServer) -> None:
    async def run() -> None:
        sink = Sink(SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap, **LINGERING}))
        inflight = await produced(sink)
        for _ in range(1000):  # as many milliseconds, if it did anything
            sink.hurry()
        sink.poll()
        assert inflight.acknowledged == 0
        sink.close()

    asyncio.run(run())
