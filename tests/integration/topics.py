"""Create topics for a test, and read topics to their end."""

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.integration.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds since 1970
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def json(self) -> Any:
        """The value, decoded; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)

    @property
    def json_key(self) -> Any:
        return None if self.key is None else json.loads(self.key)


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    """Create a topic, with settings such as cleanup_policy="compact"; return once clients see it."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(topic, partitions, config=settings)])[topic].result()
    wait_until(lambda: topic in client.list_topics(timeout=60).topics, f"topic {topic}")


def topic_setting(bootstrap: str, topic: str, name: str) -> str:
    """What a setting of a topic is."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = AdminClient({"bootstrap.servers": bootstrap})
    settings = client.describe_configs([resource])[resource].result()
    return str(settings[name].value)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic; return once clients see that it is gone."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in client.list_topics(timeout=60).topics, f"topic {topic} to go")


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Add partitions; return once clients see them."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_partitions([NewPartitions(topic, total)])[topic].result()
    wait_until(lambda: len(client.list_topics(topic, 60).topics[topic].partitions) == total, "the partitions")


def topic_names(bootstrap: str) -> set[str]:
    """The names of all topics."""
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics)


def read_topic(
    bootstrap: str,
    topic: str,
    count: int = 0,
    *,
    until: Callable[[list[Record]], bool] | None = None,
    committed: bool = True,
    timeout: float = 60.0,
) -> list[Record]:
    """Every record of the topic, in order within each partition.

    Reads all partitions from beginning to end, and further until there are `count` records and `until` of
    them is true. Raises AssertionError after `timeout` seconds: records may be lost, so such a test is never
    retried. `committed` leaves out records of open or aborted transactions.
    """
    options = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-{uuid.uuid4()}",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,  # how late the consumer notices a partition's end
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    consumer = Consumer(options)
    try:
        partitions = wait_until(lambda: _partitions(consumer, topic), f"topic {topic}", timeout)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        return _read(consumer, topic, set(partitions), count, until, timeout)
    finally:
        consumer.close()


def await_markers(bootstrap: str, topics: Sequence[str], timeout: float = 60.0) -> None:
    """Wait until a reader of committed records gets to what is now the end of each topic.

    A commit is acknowledged before its markers are in every partition, which may have lost its leader.
    """
    written: dict[tuple[str, int], int] | None = None

    def readable() -> bool:
        nonlocal written
        if written is None:
            written = _ends(bootstrap, topics, "read_uncommitted")
        ends = _ends(bootstrap, topics, "read_committed")
        if written is None or ends is None:
            return False
        return all(ends.get(at, 0) >= end for at, end in written.items())

    wait_until(readable, f"markers in {topics}", timeout)


def _ends(bootstrap: str, topics: Sequence[str], isolation: str) -> dict[tuple[str, int], int] | None:
    """Where a reader with that isolation stops in each partition; None while Kafka can't tell."""
    options = {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": isolation}
    consumer = Consumer(options)
    try:
        places = [(topic, number) for topic in topics for number in _partitions(consumer, topic)]
        return {at: consumer.get_watermark_offsets(TopicPartition(*at), timeout=10)[1] for at in places}
    except KafkaException:
        return None
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    found = consumer.list_topics(topic, timeout=60).topics[topic]
    if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(found.error)
    return list(found.partitions)


def _read(
    consumer: Consumer,
    topic: str,
    partitions: set[int],
    count: int,
    until: Callable[[list[Record]], bool] | None,
    timeout: float,
) -> list[Record]:
    deadline = time.monotonic() + timeout
    records: list[Record] = []
    unread = set(partitions)  # partitions not yet read to their end
    while unread or len(records) < count or (until is not None and not until(records)):
        message = consumer.poll(max(0.0, deadline - time.monotonic()))
        if message is None:
            raise AssertionError(
                f"{topic}: {len(records)} records, not what was awaited, after {timeout:g} s"
            )
        error = message.error()
        if error is None:
            records.append(_record(message))
            unread.add(records[-1].partition)
        elif error.code() == KafkaError._PARTITION_EOF:
            unread -= {message.partition()}
        else:
            raise KafkaException(error)
    return records


def _record(message: Message) -> Record:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return Record(
        topic, partition, offset, message.timestamp()[1], message.key(), message.value(), tuple(headers)
    )
