"""The topics that a producer knows to exist, and the creation of missing ones."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.encode.records import EVERY_PARTITION, Record
from pgrelay.errors import PgrelayError, SetupError, Verdict, verdict
from pgrelay.kafka.errors import creation_error, too_few_brokers, unknown_topic_error
from pgrelay.kafka.topics import TopicKind, create, new_topic, request_batches, without_leader

_CREATE_TIMEOUT_S: Final = 30.0
_CREATE_RETRY_S: Final = 0.2
# Only a courtesy: the admin client sometimes gets no answer, for example from a broker that hangs.
_LEADER_TIMEOUT_S: Final = 1.0
_LEADER_RETRY_S: Final = 0.02

# Asks the cluster for the metadata of all topics, or of one.
FetchMetadata = Callable[[str | None], Awaitable[ClusterMetadata]]


class KnownTopics:
    """Topics by name, and how many partitions each has, as the cluster said when last asked.

    `created` has the topics that were created here.
    """

    def __init__(self, config: SinkConfig, admin: AdminClient, fetch_metadata: FetchMetadata) -> None:
        """`fetch_metadata` raises KafkaUnavailable if nobody answers, and so do the methods that await it."""
        self.created: set[str] = set()
        self._config = config
        self._admin = admin
        self._fetch_metadata = fetch_metadata
        self._partitions: dict[str, int] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._partitions

    async def load(self) -> None:
        """FetchMetadata the cluster for its topics, unless they are known."""
        if not self._partitions:
            self._partitions = await self._partition_counts()

    async def require(self, topic: str, kind: TopicKind = "rows") -> None:
        """Return once the topic exists. It is created if the configuration says so: see `new_topic`.

        Raises SetupError if it must not or can't be created.
        """
        if topic not in self._partitions:
            await self._require([new_topic(topic, kind, self._config)])

    async def require_all(self, topics: Iterable[str]) -> None:
        """The same for topics of tables, many of which may be missing."""
        missing = sorted({topic for topic in topics if topic not in self._partitions})
        if missing:
            await self._require([new_topic(topic, "rows", self._config) for topic in missing])

    async def refresh_partitions(self, topics: Iterable[str]) -> None:
        """Ask how many partitions these topics have by now."""
        for topic in topics:
            self._partitions |= await self._partition_counts(topic)

    def to_every_partition(self, records: Iterable[Record]) -> list[Record]:
        """The same records; one for every partition of its topic is repeated for each."""
        spread: list[Record] = []
        for topic, key, value, headers, partition in records:
            # 1 if unknown. A topic may be hidden from us: the producer's error then says which right we lack.
            targets = range(self._partitions.get(topic, 1)) if partition == EVERY_PARTITION else (partition,)
            spread.extend((topic, key, value, headers, target) for target in targets)
        return spread

    async def _require(self, wanted: list[NewTopic]) -> None:
        if self._config.create_topics:
            for batch in request_batches(wanted):
                await self._create(batch)
                await self._await_leaders([new.topic for new in batch])
            return
        # They may have been created since we last asked.
        self._partitions = await self._partition_counts()
        for new in wanted:
            if new.topic not in self._partitions:
                raise SetupError(
                    f"topic {new.topic} does not exist; create it, or set sink.create_topics: true"
                )

    async def _create(self, wanted: list[NewTopic]) -> None:
        """Create topics. Retries transient errors here, because a session that ends sends rows twice."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _CREATE_TIMEOUT_S
        left_s = _CREATE_TIMEOUT_S
        while failures := await self._try_to_create(wanted, left_s):
            # Computed ahead of the pause, which may last longer: a try can't take a negative time.
            left_s = deadline - loop.time() - _CREATE_RETRY_S
            for failure in failures.values():
                if verdict(failure) is Verdict.STOP or left_s <= 0:
                    raise failure
            wanted = [new for new in wanted if new.topic in failures]
            await asyncio.sleep(_CREATE_RETRY_S)

    async def _try_to_create(self, wanted: list[NewTopic], timeout_s: float) -> dict[str, PgrelayError]:
        """Returns the errors, by topic."""
        refusals = await create(self._admin, wanted, timeout_s)
        made = {new.topic: new.num_partitions for new in wanted if new.topic not in refusals}
        self._partitions |= made
        self.created |= made.keys()
        exist = [each for each in refusals if refusals[each].code() == KafkaError.TOPIC_ALREADY_EXISTS]
        for topic in exist:
            del refusals[topic]
        enough = any(map(too_few_brokers, refusals.values())) and await self._has_enough_brokers()
        failures = {topic: creation_error(topic, reason, enough) for topic, reason in refusals.items()}
        if exist:
            self._partitions = {**self._partitions, **await self._partition_counts()}
        for topic in exist:
            if topic not in self._partitions and await self._is_unknown_to_broker(topic):
                failures[topic] = unknown_topic_error(topic)
        return failures

    async def _await_leaders(self, topics: list[str]) -> None:
        """Wait, but not for long, until each partition of these new topics has a leader that answers.

        Before that, a broker can refuse a producer's first batch and take the next, which ends the session.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LEADER_TIMEOUT_S
        # Those that are hidden from us have none.
        counts = ((name, self._partitions.get(name, 0)) for name in topics)
        waiting = {TopicPartition(name, part) for name, count in counts for part in range(count)}
        while (waiting := await without_leader(self._admin, waiting)) and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LEADER_RETRY_S)

    async def _has_enough_brokers(self) -> bool:
        """Whether the cluster has a broker for each replica of a topic, even if some are down."""
        metadata = await self._fetch_metadata(None)
        parts = (part for topic in metadata.topics.values() for part in topic.partitions.values())
        brokers = {*metadata.brokers, *(replica for part in parts for replica in part.replicas)}
        return len(brokers) >= self._config.replication_factor

    async def _partition_counts(self, only: str | None = None) -> dict[str, int]:
        """The number of partitions of each topic that the broker lists."""
        topics = (await self._fetch_metadata(only)).topics
        return {name: count for name, each in topics.items() if (count := len(each.partitions))}

    async def _is_unknown_to_broker(self, topic: str) -> bool:
        """Whether the broker that is asked does not know the topic, rather than hiding it from us."""
        error = (await self._fetch_metadata(topic)).topics[topic].error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
