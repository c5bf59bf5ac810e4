"""Which topics exist, as far as a producer has been told, and how missing ones are created."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.encode.records import EVERY_PARTITION, Record
from pgrelay.errors import PgrelayError, SetupError, Verdict, verdict
from pgrelay.kafka.errors import too_few_brokers, uncreated, unheard
from pgrelay.kafka.topics import TopicOf, create, new_topic, portions, unled

_CREATE_TIMEOUT_S: Final = 30.0
_CREATE_RETRY_S: Final = 0.2
# The wait is no condition: the admin client sometimes gets no answer, as from a broker that hangs.
_LEADER_TIMEOUT_S: Final = 1.0
_LEADER_RETRY_S: Final = 0.02

# Asks the cluster for the metadata of all topics, or of one.
Ask = Callable[[str | None], Awaitable[ClusterMetadata]]


class KnownTopics:
    """Topics by name, and how many partitions each has, as the cluster said when last asked.

    `made` are the topics that were created here.
    """

    def __init__(self, config: SinkConfig, admin: AdminClient, ask: Ask) -> None:
        """`ask` raises KafkaUnavailable if nobody answers, and so do the methods that await it."""
        self.made: set[str] = set()
        self._config = config
        self._admin = admin
        self._ask = ask
        self._partitions: dict[str, int] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._partitions

    async def learn(self) -> None:
        """Ask the cluster for its topics, unless they are known."""
        if not self._partitions:
            self._partitions = await self._counts()

    async def require(self, topic: str, of: TopicOf = "rows") -> None:
        """Return once the topic exists. It is created if the configuration says so: see `new_topic`.

        Raises SetupError if it must not or can't be created.
        """
        if topic not in self._partitions:
            await self._require([new_topic(topic, of, self._config)])

    async def require_all(self, topics: Iterable[str]) -> None:
        """The same for topics of tables, many of which may be missing."""
        missing = sorted({topic for topic in topics if topic not in self._partitions})
        if missing:
            await self._require([new_topic(topic, "rows", self._config) for topic in missing])

    async def recount(self, topics: Iterable[str]) -> None:
        """Learn how many partitions the topics have by now."""
        for topic in topics:
            self._partitions |= await self._counts(topic)

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
            for portion in portions(wanted):
                await self._create(portion)
                await self._await_leaders([new.topic for new in portion])
            return
        # They may have been created since we last asked.
        self._partitions = await self._counts()
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
        self.made |= made.keys()
        exist = [each for each in refusals if refusals[each].code() == KafkaError.TOPIC_ALREADY_EXISTS]
        for topic in exist:
            del refusals[topic]
        enough = any(map(too_few_brokers, refusals.values())) and await self._has_enough_brokers()
        failures = {topic: uncreated(topic, reason, enough) for topic, reason in refusals.items()}
        if exist:
            self._partitions = {**self._partitions, **await self._counts()}
        for topic in exist:
            if topic not in self._partitions and await self._is_unheard(topic):
                failures[topic] = unheard(topic)
        return failures

    async def _await_leaders(self, topics: list[str]) -> None:
        """Return once each partition of the topics, which may be new, is answered for by its leader, or soon.

        Before that, a broker can refuse a producer's first batch and take the next, which ends the session.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LEADER_TIMEOUT_S
        # Those that are hidden from us have none.
        counts = ((name, self._partitions.get(name, 0)) for name in topics)
        waiting = {TopicPartition(name, part) for name, count in counts for part in range(count)}
        while (waiting := await unled(self._admin, waiting)) and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LEADER_RETRY_S)

    async def _has_enough_brokers(self) -> bool:
        """Whether the cluster has as many brokers as a topic is to have replicas, even if some are away."""
        metadata = await self._ask(None)
        parts = (part for topic in metadata.topics.values() for part in topic.partitions.values())
        brokers = {*metadata.brokers, *(replica for part in parts for replica in part.replicas)}
        return len(brokers) >= self._config.replication_factor

    async def _counts(self, only: str | None = None) -> dict[str, int]:
        """How many partitions each topic has, of those that the broker told us."""
        topics = (await self._ask(only)).topics
        return {name: count for name, each in topics.items() if (count := len(each.partitions))}

    async def _is_unheard(self, topic: str) -> bool:
        """Whether the broker that is asked does not know the topic, rather than hiding it from us."""
        error = (await self._ask(topic)).topics[topic].error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
