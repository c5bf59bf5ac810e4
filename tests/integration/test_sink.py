"""The Kafka producer, on a real broker."""

import asyncio
import uuid
import weakref

import pytest

from pgrelay.config import SinkConfig
from pgrelay.embedded.kafka import Kafka
from pgrelay.encode.records import BY_KEY, Record
from pgrelay.errors import PgrelayError, RecordRefused
from pgrelay.kafka.cluster import Cluster
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.progress import InFlight
from tests.integration.proxy import Proxy
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic, read_topic
from tests.integration.waiting import eventually
from tests.kafka.sinks import produce
from tests.threads import gc_disabled

PATIENCE = 60.0  # seconds
LINGERING = {"linger.ms": "60000"}  # longer than any test waits


async def test_answers_too_late_for_a_short_try_are_still_received(
    kafka_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Kafka would be queried for ever, and reported as away."""
    monkeypatch.setattr("pgrelay.kafka.timeouts._SHORTEST_S", 0.1)
    config = SinkConfig(kafka={"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}"})
    offsets = Offsets(config, f"sink.{uuid.uuid4().hex}", Identity("7", "db", "s"))
    making, sink = Sink(config), Sink(config)
    try:
        await making.topics.require(offsets.topic, "offsets")
        kafka_proxy.latency = 0.06
        await sink.topics.load()
        assert await offsets.read() is None
        async with Cluster(config) as cluster:
            assert offsets.topic in (await cluster.overview()).topics
    finally:
        await making.close()
        await sink.close()


async def produced(sink: Sink) -> InFlight:
    """Hand one record over to the producer."""
    topic = f"sink.{uuid.uuid4().hex}"
    await sink.topics.require(topic)
    return produce(sink, topic)


def test_few_records_are_sent_at_once_if_there_is_nothing_else_to_do(kafka: KafkaServer) -> None:
    async def run() -> None:
        sink = Sink(SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap}), LINGERING)
        inflight = await produced(sink)

        def delivered() -> bool:
            sink.flush_early()
            return inflight.acknowledged == 1

        await eventually(delivered, "the record's acknowledgement")
        await sink.close()

    asyncio.run(run())


def test_a_configured_linger_is_kept(kafka: KafkaServer) -> None:
    async def run() -> None:
        sink = Sink(SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap, **LINGERING}))
        inflight = await produced(sink)
        for _ in range(1000):  # as many milliseconds
            sink.flush_early()
        sink.poll()
        assert inflight.acknowledged == 0
        await sink.close()

    asyncio.run(run())


def test_records_that_a_hanging_broker_never_answered_are_freed(embedded_kafka: Kafka) -> None:
    """A report that is not processed keeps everything that it refers to alive."""

    async def run() -> None:
        sink = Sink(SinkConfig(kafka={"bootstrap.servers": embedded_kafka.bootstrap}))
        topic = f"sink.{uuid.uuid4().hex}"
        await sink.topics.require(topic)
        acknowledged = produce(sink, topic)
        # So its broker is known, and the following records wait there.
        await sink.drain(lambda: acknowledged.acknowledged == 0, PATIENCE)
        embedded_kafka.pause()
        for _ in range(1000):
            produce(sink, topic)
        closed = weakref.ref(sink)
        await sink.close()
        del sink
        assert closed() is None

    with gc_disabled():
        asyncio.run(run())


def test_published_records_have_their_headers(kafka: KafkaServer) -> None:
    topic = f"sink.{uuid.uuid4().hex}"

    async def run() -> None:
        sink = Sink(SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap}))
        await sink.topics.require(topic)
        await sink.publish([(topic, b"k", b"v", [("op", b"c")], BY_KEY)])
        await sink.close()

    asyncio.run(run())
    assert [record.headers for record in read_topic(kafka.bootstrap, topic)] == [(("op", b"c"),)]


def sink_of(kafka: KafkaServer, delivery: str) -> Sink:
    config = SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap})
    if delivery == "at_least_once":
        return Sink(config)
    name = f"sink.{uuid.uuid4().hex}"
    return TransactionalSink(config, Offsets(config, name, Identity("7", "db", name)))


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
async def test_a_refusal_is_told_as_it_is_while_much_more_is_produced(
    kafka: KafkaServer, delivery: str
) -> None:
    """A transaction that has failed refuses what is produced next, before the refused record is reported."""
    topic = f"sink.{uuid.uuid4().hex}"
    create_topic(kafka.bootstrap, topic, max_message_bytes="10000")
    sink = sink_of(kafka, delivery)
    try:
        if isinstance(sink, TransactionalSink):
            await sink.recover()
        await sink.topics.require_all([topic, f"{topic}.other"])
        records: list[Record] = [(topic, b"k", uuid.uuid4().bytes * 2_000, None, BY_KEY)]
        first: Record = (topic, b"k", b"v", None, BY_KEY)
        second: Record = (f"{topic}.other", b"k", b"v", None, BY_KEY)
        small = [first, second] * 25
        failure: PgrelayError | None = None
        while failure is None:
            try:
                sink.produce(records, 0, sink.delivery(InFlight(None, len(records)), 1))
                sink.poll()
            except PgrelayError as error:
                failure = error
            records = small
            await asyncio.sleep(0)
    finally:
        await sink.close()
    assert isinstance(failure, RecordRefused), failure
    assert (failure.topic, failure.by_broker) == (topic, True)


async def test_a_record_above_the_producers_own_limit_is_told_with_both_sizes(kafka: KafkaServer) -> None:
    """librdkafka would say that the broker refuses it, which has not seen it."""
    options = {"bootstrap.servers": kafka.bootstrap, "message.max.bytes": "20000"}
    sink = Sink(SinkConfig(kafka=options))
    record: Record = ("t", b"k", bytes(30_000), None, BY_KEY)
    try:
        with pytest.raises(
            RecordRefused, match=r"has 30\d\d\d bytes, and message\.max\.bytes .* is 20000"
        ) as told:
            sink.produce([record], 0, sink.delivery(InFlight(None, 1), 7))
    finally:
        await sink.close()
    assert (told.value.topic, told.value.commit_lsn, told.value.by_broker) == ("t", 7, False)
