"""Brokers that know different things."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.encode.records import EVERY_PARTITION
from pgrelay.kafka.known_topics import FetchMetadata, KnownTopics

CONFIG = SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})


class Others:
    """An admin client that says that the topic exists, and brokers that each have their own knowledge."""

    def __init__(self, *known: dict[str, SimpleNamespace]) -> None:
        self.asked = 0
        self._known = iter(known)
        self.topics = KnownTopics(CONFIG, cast(AdminClient, self), cast(FetchMetadata, self._tell))

    def create_topics(self, wanted: list[NewTopic], **_: object) -> dict[str, Future[None]]:
        self.asked += 1
        exists: Future[None] = Future()
        exists.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
        return {new.topic: exists for new in wanted}

    def list_offsets(
        self, wanted: dict[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, Future[None]]:
        led: Future[None] = Future()
        led.set_result(None)
        return dict.fromkeys(wanted, led)

    async def _tell(self, _: str | None) -> SimpleNamespace:
        return SimpleNamespace(topics=next(self._known))


def unknown(code: int) -> dict[str, SimpleNamespace]:
    """A broker's answer to a request for topic t only."""
    return {"t": SimpleNamespace(partitions={}, error=KafkaError(code))}


KNOWN = {"t": SimpleNamespace(partitions={0: 1, 1: 2}, error=None)}


async def test_a_topic_made_by_others_is_awaited_until_the_asked_broker_knows_it() -> None:
    """Otherwise it would seem missing: no position would be kept, and a truncate's partitions be unknown."""
    others = Others({}, unknown(KafkaError.UNKNOWN_TOPIC_OR_PART), KNOWN)
    await others.topics.require("t")
    assert ("t" in others.topics, others.topics.created, others.asked) == (True, set(), 2)


async def test_a_topic_that_we_may_not_see_is_not_waited_for() -> None:
    """A missing right is reported when the topic is written to."""
    others = Others({}, unknown(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    await others.topics.require("t")
    assert ("t" in others.topics, others.asked) == (False, 1)


async def test_a_truncate_of_a_topic_that_we_may_not_see_goes_to_the_producer() -> None:
    topics = Others({"t": SimpleNamespace(partitions={}, error=None)}).topics
    await topics.refresh_partitions({"t"})
    assert topics.to_every_partition([("t", None, b"v", None, EVERY_PARTITION)]) == [
        ("t", None, b"v", None, 0)
    ]
