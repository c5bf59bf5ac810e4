"""Topics as a relay creates them, by what they hold."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from pgrelay.config import SinkConfig
from pgrelay.kafka.errors import UNAUTHORIZED

TopicOf = Literal["rows", "schemas", "transactions", "offsets", "messages", "dead letters"]

# Only closed segments are compacted, and a reader goes through the rest: so these are small.
_SMALL_SEGMENTS: Final[Mapping[str, str]] = {"segment.bytes": "1048576", "segment.ms": "3600000"}
# These are read from their beginning, so the configured cleanup is only for the others.
_KEPT: Final[Mapping[TopicOf, Mapping[str, str]]] = {
    "schemas": {"cleanup.policy": "delete", "retention.ms": "-1"},
    "dead letters": {"cleanup.policy": "delete", "retention.ms": "-1"},
    "offsets": {"cleanup.policy": "compact", **_SMALL_SEGMENTS},
}
# Their records share keys, but none replaces another, so the configured cleanup must not compact them.
_EACH_COUNTS: Final[frozenset[TopicOf]] = frozenset({"messages", "transactions"})
# The configured safety of records holds for all topics: a position that is lost is a gap.
_SAFETY: Final = ("min.insync.replicas", "unclean.leader.election.enable")

_OPTIONS_REFUSED: Final = frozenset({KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG})

_ASK_TIMEOUT_S: Final = 1.0

# Controllers refuse a request for over 10,000 partitions; those of 3.x also one for as many metadata records.
_MOST_PARTITIONS: Final = 1_000


def lasting(of: TopicOf) -> bool:
    """Whether such a topic has one partition, and keeps all but what later records replace."""
    return of in _KEPT


def made_with(of: TopicOf, config: SinkConfig) -> dict[str, str]:
    """The options that such a topic is created with."""
    given = config.topic_config
    if of in _EACH_COUNTS:
        return {**given, "cleanup.policy": "delete"}
    if of not in _KEPT:
        return dict(given)
    return {**_KEPT[of], **{name: given[name] for name in _SAFETY if name in given}}


def new_topic(name: str, of: TopicOf, config: SinkConfig) -> NewTopic:
    """A topic as the configuration wants it created."""
    return NewTopic(
        name,
        num_partitions=1 if lasting(of) else config.partitions,
        replication_factor=config.replication_factor,
        config=made_with(of, config),
    )


def plainer(new: NewTopic, reason: KafkaError) -> NewTopic | None:
    """The topic without options of ours that it can do without, if those may be what a cluster refuses.

    A hosted one may have its own least size of segments. None if there are none, or `reason` is another.
    """
    options = new.config or {}
    if reason.code() not in _OPTIONS_REFUSED or not _SMALL_SEGMENTS.items() <= options.items():
        return None
    rest = {name: value for name, value in options.items() if name not in _SMALL_SEGMENTS}
    return NewTopic(
        new.topic, num_partitions=new.num_partitions, replication_factor=new.replication_factor, config=rest
    )


def portions(topics: Iterable[NewTopic]) -> Iterator[list[NewTopic]]:
    """The topics in lists that a controller accepts in one request."""
    portion: list[NewTopic] = []
    partitions = 0
    for topic in topics:
        if portion and partitions + topic.num_partitions > _MOST_PARTITIONS:
            yield portion
            portion, partitions = [], 0
        portion.append(topic)
        partitions += topic.num_partitions
    if portion:
        yield portion


async def create(
    admin: AdminClient, topics: list[NewTopic], timeout_s: float, *, validate_only: bool = False
) -> dict[str, KafkaError]:
    """Create topics, or only have the cluster validate them, in one request. Returns the refusals by topic.

    Where a `plainer` topic may not be refused, it is tried in a second request, which may take as long.
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
            if (plain := plainer(new, error.args[0])) is not None:
                again.append(plain)
            else:
                refusals[new.topic] = error.args[0]
    if again:
        refusals |= await create(admin, again, timeout_s, validate_only=validate_only)
    return refusals


async def unled(admin: AdminClient, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Those of the partitions whose leader does not answer for them, now; it is asked for their ends.

    One that we may not ask about is not among them: the producer's error then says which right we lack.
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
