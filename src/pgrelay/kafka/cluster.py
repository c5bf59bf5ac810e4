"""Queries of Kafka's admin API, for a check and about a topic that has refused a record.

Nothing is produced and no topic created: the cluster only says whether it could be.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.kafka.errors import UNAUTHORIZED
from pgrelay.kafka.log import librdkafka_logger
from pgrelay.kafka.timeouts import growing_timeouts_s
from pgrelay.kafka.topics import create, request_batches

_TIMEOUT_S: Final = 8.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic: `replicas` and `in_sync` are those of its worst partition.

    `led`: each partition has a leader. If one has none, brokers still list its last in-sync replica.
    """

    partitions: int
    replicas: int
    in_sync: int
    led: bool = True


@dataclass(frozen=True, slots=True)
class Overview:
    """Brokers by id, as host:port, and topics by name."""

    brokers: dict[int, str]
    topics: dict[str, Topic]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic is configured to accept and to keep. `cleanup` is delete, compact or both."""

    message_bytes: int
    min_in_sync: int
    cleanup: str
    retention_ms: int

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup

    @property
    def keeps_all(self) -> bool:
        return self.cleanup == "delete" and self.retention_ms == -1

    @property
    def keeps_latest(self) -> bool:
        """The latest record of each key is kept, whatever its age."""
        return self.cleanup == "compact" or self.keeps_all


@dataclass(frozen=True, slots=True)
class Broker:
    """`defaults` are those for new topics.

    `transaction_replicas`: the replication factor of the topic that keeps Kafka transactions, once created.
    `transaction_max_ms`: the longest timeout that a transaction may have.
    """

    defaults: TopicConfig
    transaction_replicas: int
    transaction_max_ms: int


class Cluster:
    """An admin client, for the duration of a `with` block.

    `first_error` is the first that librdkafka reported.
    """

    def __init__(self, config: SinkConfig) -> None:
        """Raises KafkaException, ValueError or TypeError on options that librdkafka refuses."""
        self.first_error: KafkaError | None = None
        options: dict[str, Any] = {**config.kafka, "error_cb": self._on_error}
        self._admin = AdminClient(options, logger=librdkafka_logger())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The client's callback refers to us, and closing waits for its threads: see `Sink.close`.
        clients = [self._admin]
        del self._admin
        await asyncio.to_thread(clients.clear)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.first_error = self.first_error or error

    async def overview(self) -> Overview:
        """The cluster's brokers and topics. Raises KafkaException if it does not answer."""
        try:
            metadata = await self._metadata()
        finally:
            self._admin.poll(0)
        brokers = {broker.id: f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()}
        topics = {}
        for name, found in metadata.topics.items():
            parts = found.partitions.values()
            topics[name] = Topic(
                len(parts),
                min((len(part.replicas) for part in parts), default=0),
                min((len(part.isrs) for part in parts), default=0),
                all(part.leader >= 0 for part in parts),
            )
        return Overview(brokers, topics)

    async def _metadata(self) -> ClusterMetadata:
        """The metadata of all brokers and topics. Raises KafkaException if nobody answers in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT_S
        timeouts_s = growing_timeouts_s()
        while True:
            try:
                return await asyncio.to_thread(self._admin.list_topics, timeout=next(timeouts_s))
            except KafkaException:
                if loop.time() >= deadline:
                    raise

    async def broker(self, broker: int) -> Broker:
        """The settings of a broker, from that broker, at the address that it advertises."""
        answers = self._describe_configs(ResourceType.BROKER, [str(broker)])
        values = await _result(answers[str(broker)])
        return Broker(
            _config_of(values, "message.max.bytes", "log.cleanup.policy", "log.retention.ms"),
            _number(values, "transaction.state.log.replication.factor", 1),
            _number(values, "transaction.max.timeout.ms", sys.maxsize),
        )

    async def topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfig | None]:
        """The configurations of existing topics; None for those that we have no right to see.

        Topics whose configuration is unavailable for another reason are left out.
        """
        found: dict[str, TopicConfig | None] = {}
        for name, answer in self._describe_configs(ResourceType.TOPIC, names).items():
            try:
                found[name] = _topic_config(await _result(answer))
            except KafkaException as error:
                if error.args[0].code() in UNAUTHORIZED:
                    found[name] = None
        return found

    async def topic_config(self, name: str) -> TopicConfig:
        """An existing topic's configuration. Raises KafkaException if it can't be had."""
        return _topic_config(await _result(self._describe_configs(ResourceType.TOPIC, [name])[name]))

    def _describe_configs(self, of: ResourceType, names: Sequence[str]) -> "dict[str, Future[Any]]":
        resources = [ConfigResource(of, name) for name in names]
        answers = self._admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
        return {resource.name: answer for resource, answer in answers.items()}

    async def forbidden_topics(self, names: Sequence[str], operation: AclOperation) -> list[str]:
        """Those of these existing topics on which we lack the right to the operation."""
        futures = self._admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=_TIMEOUT_S
        )
        return [name for name, future in futures.items() if not await _is_allowed(future, operation)]

    async def is_restricted(self) -> bool:
        """Whether brokers may refuse us something: they check rights, and we are not an administrator."""
        answer = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=_TIMEOUT_S)
        try:
            allowed = (await _result(answer)).authorized_operations
        except KafkaException:
            return False
        # None if we may not even describe the cluster, or from a broker that never says.
        return allowed is None or AclOperation.ALTER not in allowed

    async def refused_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """Have the cluster validate topics without creating them. Returns the ones it refuses, and why."""
        refused: dict[str, KafkaError] = {}
        for batch in request_batches(topics):
            refused |= await create(self._admin, batch, _TIMEOUT_S, validate_only=True)
        return refused


async def _result(future: "Future[T]") -> T:
    return await asyncio.wrap_future(future)


async def _is_allowed(description: "Future[Any]", operation: AclOperation) -> bool:
    """Whether the operation is allowed; true if the broker does not say."""
    try:
        allowed = (await _result(description)).authorized_operations
    except KafkaException as error:
        return bool(error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return allowed is None or operation in allowed


def _topic_config(values: Mapping[str, Any]) -> TopicConfig:
    return _config_of(values, "max.message.bytes", "cleanup.policy", "retention.ms")


def _config_of(values: Mapping[str, Any], size: str, cleanup: str, retention: str) -> TopicConfig:
    return TopicConfig(
        _number(values, size, sys.maxsize),
        _number(values, "min.insync.replicas", 1),
        values[cleanup].value if cleanup in values else "delete",
        _number(values, retention, -1),
    )


def _number(values: Mapping[str, Any], name: str, otherwise: int) -> int:
    """A setting's value; `otherwise` if the broker, which may not be Apache Kafka, has no such setting."""
    value = values[name].value if name in values else None
    return otherwise if value is None else int(value)
