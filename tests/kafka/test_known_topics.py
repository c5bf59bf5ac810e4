"""Missing topics are created, or looked up again; without a broker."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.encode.records import BY_KEY, EVERY_PARTITION, Record
from pgrelay.errors import SetupError
from pgrelay.kafka.known_topics import FetchMetadata, KnownTopics

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}


class Cluster:
    """Its topics, and its answers to their creation: a number of errors by topic, then success.

    `replicas`: the brokers with each partition, of which only broker 1 takes part.
    """

    def __init__(self, errors: dict[str, list[int]] | None = None, **topics: int) -> None:
        self.topics = topics
        self.replicas = [1]
        self.asked: list[str | None] = []
        self.tried: list[list[str]] = []
        self._errors = errors or {}
        # How often leaders do not answer yet, and by what.
        self.leader_errors: list[int] = []
        self.ends_asked: list[list[tuple[str, int]]] = []

    async def ask(self, only: str | None) -> SimpleNamespace:
        self.asked.append(only)
        counts = {name: count for name, count in self.topics.items() if only in (None, name)}
        part = SimpleNamespace(replicas=self.replicas)
        return SimpleNamespace(
            brokers={1: "b:9092"},
            topics={
                name: SimpleNamespace(partitions=dict.fromkeys(range(count), part))
                for name, count in counts.items()
            },
        )

    def create_topics(
        self,
        wanted: Sequence[NewTopic],
        operation_timeout: float,
        request_timeout: float,
        validate_only: bool,
    ) -> dict[str, "Future[None]"]:
        assert min(operation_timeout, request_timeout) > 0
        assert not validate_only
        self.tried.append([new.topic for new in wanted])
        return {new.topic: self._made(new) for new in wanted}

    def list_offsets(
        self, wanted: dict[TopicPartition, OffsetSpec], request_timeout: float
    ) -> dict[TopicPartition, "Future[None]"]:
        self.ends_asked.append(sorted((each.topic, each.partition) for each in wanted))
        return {each: self._led() for each in wanted}

    def _led(self) -> "Future[None]":
        led: Future[None] = Future()
        if self.leader_errors:
            led.set_exception(KafkaException(KafkaError(self.leader_errors.pop(0))))
        else:
            led.set_result(None)
        return led

    def _made(self, new: NewTopic) -> "Future[None]":
        made: Future[None] = Future()
        if errors := self._errors.get(new.topic):
            made.set_exception(KafkaException(KafkaError(errors.pop(0))))
        else:
            self.topics[new.topic] = new.num_partitions
            made.set_result(None)
        return made


def known(cluster: Cluster, *, create: bool = True, replicas: int = 1) -> KnownTopics:
    config = SinkConfig(kafka=KAFKA, create_topics=create, partitions=2, replication_factor=replicas)
    return KnownTopics(config, cast(AdminClient, cluster), cast(FetchMetadata, cluster.ask))


def spread(topics: KnownTopics, topic: str) -> list[int]:
    """The partitions that a record for all of them goes to."""
    record: Record = (topic, None, b"v", None, EVERY_PARTITION)
    return [partition for *_, partition in topics.to_every_partition([record])]


def test_the_cluster_is_asked_once() -> None:
    cluster = Cluster(a=1)
    topics = known(cluster)
    for _ in range(2):
        asyncio.run(topics.load())
    assert "a" in topics
    assert "b" not in topics
    assert cluster.asked == [None]


def test_only_missing_topics_are_created() -> None:
    cluster = Cluster(a=3)
    topics = known(cluster)
    asyncio.run(topics.load())
    asyncio.run(topics.require_all(["c", "a", "b", "c"]))
    assert cluster.tried == [["b", "c"]]
    assert (spread(topics, "a"), spread(topics, "b")) == ([0, 1, 2], [0, 1])


def test_new_partitions_are_waited_for_until_their_leaders_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is produced before that can be lost, although it is acknowledged."""
    monkeypatch.setattr("pgrelay.kafka.known_topics._LEADER_RETRY_S", 0)
    cluster = Cluster()
    cluster.leader_errors = [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_LEADER_FOR_PARTITION]
    topics = known(cluster)
    asyncio.run(topics.require_all(["a", "b"]))
    assert cluster.ends_asked[0] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert len(cluster.ends_asked[1]) == 2
    assert len(cluster.ends_asked) == 2


def test_leaders_that_do_not_come_are_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer says then what is wrong."""
    monkeypatch.setattr("pgrelay.kafka.known_topics._LEADER_RETRY_S", 0)
    monkeypatch.setattr("pgrelay.kafka.known_topics._LEADER_TIMEOUT_S", 0.2)
    cluster = Cluster()
    cluster.leader_errors = [KafkaError.LEADER_NOT_AVAILABLE] * 1_000_000
    topics = known(cluster)
    asyncio.run(topics.require("a"))
    assert "a" in topics


def test_leaders_that_we_may_not_ask_are_not_waited_for() -> None:
    cluster = Cluster()
    cluster.leader_errors = [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2
    asyncio.run(known(cluster).require("a"))
    assert len(cluster.ends_asked) == 1


def test_missing_topics_are_created_in_requests_of_at_most_500() -> None:
    cluster = Cluster()
    topics = known(cluster)
    names = [f"t{number:04}" for number in range(1_001)]
    asyncio.run(topics.require_all(names))
    assert cluster.tried == [names[:500], names[500:1_000], names[1_000:]]
    assert all(name in topics for name in names)


def test_a_transient_error_retries_only_its_own_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.kafka.known_topics._CREATE_RETRY_S", 0)
    cluster = Cluster({"b": [KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER]})
    topics = known(cluster)
    asyncio.run(topics.require_all(["a", "b"]))
    assert cluster.tried == [["a", "b"], ["b"], ["b"]]
    assert "b" in topics


def test_a_topic_for_which_a_broker_is_away_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens in every rolling restart."""
    monkeypatch.setattr("pgrelay.kafka.known_topics._CREATE_RETRY_S", 0)
    cluster = Cluster({"b": [KafkaError.INVALID_REPLICATION_FACTOR]}, a=1)
    cluster.replicas = [1, 2, 3]
    topics = known(cluster, replicas=3)
    asyncio.run(topics.require("b"))
    assert "b" in topics


def test_a_topic_for_which_the_cluster_is_too_small_is_refused() -> None:
    cluster = Cluster({"b": [KafkaError.INVALID_REPLICATION_FACTOR]}, a=1)
    cluster.replicas = [1, 2, 3]
    with pytest.raises(SetupError, match="topic b can't be created"):
        asyncio.run(known(cluster, replicas=4).require("b"))


def test_a_refused_topic_does_not_prevent_others() -> None:
    cluster = Cluster({"b": [KafkaError.TOPIC_AUTHORIZATION_FAILED]})
    topics = known(cluster)
    with pytest.raises(SetupError, match=r"\bb\b"):
        asyncio.run(topics.require_all(["a", "b"]))
    assert ("a" in topics, "b" in topics) == (True, False)


def test_a_topic_created_by_somebody_else_keeps_its_partitions() -> None:
    cluster = Cluster({"a": [KafkaError.TOPIC_ALREADY_EXISTS]}, a=3)
    topics = known(cluster)
    asyncio.run(topics.require("a"))
    assert spread(topics, "a") == [0, 1, 2]


def test_with_create_topics_off_none_is_created() -> None:
    cluster = Cluster()
    topics = known(cluster, create=False)
    with pytest.raises(SetupError, match=r"^topic a does not exist; create it, or set sink\.create_topics"):
        asyncio.run(topics.require("a"))
    cluster.topics["a"] = 1
    asyncio.run(topics.require("a"))
    assert cluster.tried == []


def test_added_partitions_are_counted_when_asked() -> None:
    cluster = Cluster(a=1)
    topics = known(cluster)
    asyncio.run(topics.load())
    cluster.topics["a"] = 2
    assert spread(topics, "a") == [0]
    asyncio.run(topics.refresh_partitions(["a"]))
    assert spread(topics, "a") == [0, 1]
    # This is how librdkafka reports a topic that it can't look up now.
    cluster.topics["a"] = 0
    asyncio.run(topics.refresh_partitions(["a"]))
    assert spread(topics, "a") == [0, 1]


def test_a_topic_without_partitions_that_the_broker_tells_still_gets_the_record() -> None:
    """A record that is written nowhere would count as delivered."""
    topics = known(Cluster(a=0))
    asyncio.run(topics.load())
    assert spread(topics, "a") == [0]


def test_a_record_for_one_partition_is_not_copied() -> None:
    record: Record = ("nowhere", b"k", b"v", None, BY_KEY)
    assert known(Cluster()).to_every_partition([record]) == [record]


def test_the_offsets_topic_is_created_without_small_segments_if_those_are_refused() -> None:
    cluster = Cluster({"o": [KafkaError.POLICY_VIOLATION]})
    topics = known(cluster)
    asyncio.run(topics.require("o", "offsets"))
    assert cluster.tried == [["o"], ["o"]]
    assert "o" in topics


def test_if_the_plainer_offsets_topic_is_refused_too_that_is_the_error() -> None:
    cluster = Cluster({"o": [KafkaError.POLICY_VIOLATION] * 2})
    with pytest.raises(SetupError, match="topic o can't be created"):
        asyncio.run(known(cluster).require("o", "offsets"))
