"""What brokers say that differ in what they know, and a client that complains of one again and again."""

from collections.abc import AsyncIterator
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.kafka.sink import Sink


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    sink = Sink(SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"}))
    yield sink
    await sink.close()


async def test_a_topic_that_others_have_made_is_waited_for_until_the_broker_asked_knows_of_it(
    sink: Sink,
) -> None:
    """Else it would pass for missing: no position would be kept, and no truncate known how to be spread."""
    counts = iter([{}, {"other": 1}, {"t": 3}])
    asked = 0

    class Admin:
        def create_topics(self, wanted: list[NewTopic], **_: object) -> dict[str, Future[None]]:
            nonlocal asked
            asked += 1
            exists: Future[None] = Future()
            exists.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
            return {new.topic: exists for new in wanted}

    async def topics() -> dict[str, int]:
        return next(counts)

    sink._admin, sink._topics = Admin(), topics  # type: ignore[assignment, method-assign]
    await sink.require_topic("t")
    assert (sink.has_topic("t"), sink.made, asked) == (True, set(), 3)


@pytest.mark.parametrize("more", ["", ", 30 identical error(s) suppressed"])
async def test_a_complaint_that_differs_in_particulars_alone_is_no_other(sink: Sink, more: str) -> None:
    sink._complain(KafkaError(KafkaError._TRANSPORT, f"b:9092/3: refused (after 3ms in state CONNECT{more})"))
    assert sink.problem == "b:9092/3: refused"
