"""What the calls of a fenced producer raise, on a real broker."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from pgrelay.config import SinkConfig
from pgrelay.errors import KafkaUnavailable
from pgrelay.handover import Delivery, ProduceError, hand_over
from pgrelay.kafka.closing import close_clients
from pgrelay.kafka.offsets import Identity, Offsets, Position
from pgrelay.kafka.reports import take_reports
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.progress import InFlight
from tests.integration.servers import KafkaServer
from tests.integration.topics import create_topic
from tests.integration.waiting import eventually
from tests.kafka.sinks import produce, producers, record

FENCED = r"^the producer was fenced: another relay of this slot"


@pytest.fixture
def topic() -> str:
    return f"reports.{uuid.uuid4().hex}"


@pytest.mark.parametrize("call", [Producer.flush, Producer.commit_transaction])
def test_a_fenced_producer_raises_the_fatal_error_although_more_reports_follow_it(
    kafka: KafkaServer, topic: str, call: Callable[[Producer, float], Any]
) -> None:
    create_topic(kafka.bootstrap, topic)
    options = {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic}
    delivery = Delivery(InFlight(None), 1, lambda error, message, commit_lsn: error.code())
    # The client never frees the error that it raises, and that has this frame: so they have no other names.
    clients = [Producer(options), Producer(options)]
    clients[0].init_transactions()
    clients[0].begin_transaction()
    clients[1].init_transactions()  # which fences the first
    clients[0].produce(topic, b"v", on_delivery=delivery.report)
    code = code_raised_by(lambda timeout_s: call(clients[0], timeout_s))
    clients[0].purge()
    close_clients(clients)
    assert code == KafkaError._FENCED


def code_raised_by(call: Callable[[float], object]) -> int | None:
    """The error's code."""
    try:
        take_reports(call, 10)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return None


async def fenced_sink(kafka: KafkaServer, topic: str) -> TransactionalSink:
    """A sink with a record of a transaction that another sink of its slot has ended."""
    config = SinkConfig(kafka={"bootstrap.servers": kafka.bootstrap})
    offsets = Offsets(config, f"{topic}.offsets", Identity("7", "db", topic))
    sink, other = (TransactionalSink(config, offsets) for _ in range(2))
    await sink.topics.require(topic)
    await sink.recover()
    await other.recover()
    await other.close()
    produce(sink, topic)
    return sink


async def spent_sink(kafka: KafkaServer, topic: str) -> TransactionalSink:
    """A fenced sink whose producer takes no record any more, and did not yet raise why."""
    sink = await fenced_sink(kafka, topic)
    delivery = sink.delivery(InFlight(None), 1)

    def takes_no_record() -> bool:
        try:
            hand_over(sink._producer.produce, [record(topic)], 0, delivery.report)
        except ProduceError:
            return True
        return False

    await eventually(takes_no_record, "the producer to be fenced")
    return sink


async def test_a_spent_sink_leaves_nothing_behind_when_it_is_closed(kafka: KafkaServer, topic: str) -> None:
    before = producers()
    sink = await spent_sink(kafka, topic)
    await sink.close()
    assert producers() == before


async def test_a_spent_sink_tells_that_it_is_fenced_when_it_gets_a_record(
    kafka: KafkaServer, topic: str
) -> None:
    before = producers()
    sink = await spent_sink(kafka, topic)
    with pytest.raises(KafkaUnavailable, match=FENCED) as raised:
        produce(sink, topic)
    await sink.close(raised.value)
    assert producers() == before


async def test_a_sink_that_is_fenced_at_its_commit_leaves_nothing_behind(
    kafka: KafkaServer, topic: str
) -> None:
    before = producers()
    sink = await fenced_sink(kafka, topic)
    with pytest.raises(KafkaUnavailable, match=FENCED) as raised:
        await sink.commit(Position(10))
    await sink.close(raised.value)
    assert producers() == before
