"""How topics are created, by the kind of records that they hold."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.kafka.errors import UNAUTHORIZED

TopicKind = Literal["rows", "schemas", "transactions", "offsets", "messages", "dead letters"]

# Only closed segments are compacted, and a start reads through the rest, so they are kept small.
_SMALL_SEGMENTS: Final[Mapping[str, str]] = {"segment.bytes": "1048576", "segment.ms": "3600000"}
# These are read from the beginning, so the configured cleanup does not apply to them.
_FIXED_CLEANUP: Final[Mapping[TopicKind, Mapping[str, str]]] = {
    "schemas": {"cleanup.policy": "delete", "retention.ms": "-1"},
    "dead letters": {"cleanup.policy": "delete", "retention.ms": "-1"},
    "offsets": {"cleanup.policy": "compact", **_SMALL_SEGMENTS},
}
# Their records share keys without replacing one another, so the configured cleanup must not compact them.
_NEVER_COMPACTED: Final[frozenset[TopicKind]] = frozenset({"messages", "transactions"})
# Durability options apply to every topic: a lost position is a gap.
_DURABILITY: Final = ("min.insync.replicas", "unclean.leader.election.enable")

_OPTIONS_REFUSED: Final = frozenset({KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG})

_ASK_TIMEOUT_S: Final = 1.0

# Controllers refuse a request for over 10,000 partitions; those of 3.x also one for as many metadata records.
_MAX_PARTITIONS: Final = 1_000


def keeps_history(kind: TopicKind) -> bool:
    """Whether such a topic has a single partition and loses nothing but what later records replace."""
    return kind in _FIXED_CLEANUP


def topic_options(kind: TopicKind, config: SinkConfig) -> dict[str, str]:
    """The options that such a topic is created with."""
    given = config.topic_config
    if kind in _NEVER_COMPACTED:
        return {**given, "cleanup.policy": "delete"}
    if kind not in _FIXED_CLEANUP:
        return dict(given)
    return {**_FIXED_CLEANUP[kind], **{name: given[name] for name in _DURABILITY if name in given}}


def new_topic(name: str, kind: TopicKind, config: SinkConfig) -> NewTopic:
    """A topic as the configuration wants it created."""
    return NewTopic(
        name,
        num_partitions=1 if keeps_history(kind) else config.partitions,
        replication_factor=config.replication_factor,
        config=topic_options(kind, config),
    )


def without_segment_options(new: NewTopic, reason: KafkaError) -> NewTopic | None:
    """The topic without our segment options, if those may be why the cluster refused it; else None.

    A hosted cluster may have a minimum segment size of its own.
    """
    options = new.config or {}
    if reason.code() not in _OPTIONS_REFUSED or not _SMALL_SEGMENTS.items() <= options.items():
        return None
    rest = {name: value for name, value in options.items() if name not in _SMALL_SEGMENTS}
    return NewTopic(
        new.topic, num_partitions=new.num_partitions, replication_factor=new.replication_factor, config=rest
    )


def request_batches(topics: Iterable[NewTopic]) -> Iterator[list[NewTopic]]:
    """The topics, in batches that a controller accepts in one request."""
    batch: list[NewTopic] = []
    partitions = 0
    for topic in topics:
        if batch and partitions + topic.num_partitions > _MAX_PARTITIONS:
            yield batch
            batch, partitions = [], 0
        batch.append(topic)
        partitions += topic.num_partitions
    if batch:
        yield batch


async def create(
    admin: AdminClient, topics: list[NewTopic], timeout_s: float, *, validate_only: bool = False
) -> dict[str, KafkaError]:
    """Create topics, or only have the cluster validate them, in one request. Returns the refusals by topic.

    A topic that may do better `without_segment_options` is tried again in a second request, which may take
    as long.
    """
    futures: dict[str, Future[Any]] = admin.create_topics(
        topics, operation_timeout=timeout_s, request_timeout=timeout_s, validate_only=validate_only
    )
    refusals: dict[str, KafkaError] = {}
    again: list[NewTopic] = []
    for new in topics:
        try:
            await asyncio.wrap_future(futures[new.topic])
        except KafkaException as error:
            if (plain := without_segment_options(new, error.args[0])) is not None:
                again.append(plain)
            else:
                refusals[new.topic] = error.args[0]
    if again:
        refusals |= await create(admin, again, timeout_s, validate_only=validate_only)
    return refusals


async def without_leader(admin: AdminClient, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """The partitions whose leader does not answer now when asked for their end offset.

    Leaves out those that we may not ask about: the producer's error then says which right we lack.
    """
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    specs = dict.fromkeys(partitions, latest)
    if not specs:
        return set()
    answers = admin.list_offsets(specs, request_timeout=_ASK_TIMEOUT_S)
    found = set()
    for partition, future in answers.items():
        try:
            await asyncio.wrap_future(future)
        except KafkaException as error:
            if error.args[0].code() not in UNAUTHORIZED:
                found.add(TopicPartition(partition.topic, partition.partition))
    return found
