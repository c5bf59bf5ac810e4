"""The topics: whether they exist or can be created, are writable, and accept the records of a run."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from pgrelay.check.findings import Finding, error, first_few, ok, warning
from pgrelay.check.kafka_tools import grant
from pgrelay.check.topic_cleanup import (
    keyless_compacted,
    large_values_lost,
    needed_records_deleted,
    shared_keys_compacted,
)
from pgrelay.check.topic_replicas import leaderless, out_of_sync, single_acknowledgement, single_replica
from pgrelay.check.topics import WantedTopic
from pgrelay.config import SinkConfig
from pgrelay.figures import counted, size
from pgrelay.kafka.cluster import Broker, Cluster, Overview, Topic, TopicConfig
from pgrelay.kafka.errors import UNAUTHORIZED, is_transient, may_succeed_later, too_few_brokers
from pgrelay.kafka.producer_options import largest_record, transaction_timeout_ms
from pgrelay.kafka.topics import keeps_history, new_topic, topic_options

_RETRIED: Final = "a run tries again by itself"

# Stands for the defaults of brokers whose settings we may not read: no finding complains of these values.
_UNKNOWN: Final = TopicConfig(message_bytes=sys.maxsize, min_in_sync=0, cleanup="delete", retention_ms=-1)

# Kafka's own topic for the state of transactions.
_TRANSACTIONS: Final = "__transaction_state"


async def topic_findings(
    cluster: Cluster,
    config: SinkConfig,
    wanted: Sequence[WantedTopic],
    overview: Overview,
    broker: Broker | None,
) -> list[Finding]:
    """`broker` is the strictest one, if we may read its settings; new topics get its defaults."""
    existing = [topic for topic in wanted if topic.name in overview.topics]
    missing = [topic for topic in wanted if topic.name not in overview.topics]
    findings = [existence(existing, missing, overview.topics, config)] if wanted else []
    configs: dict[str, TopicConfig] = {}
    if existing:
        asked = await cluster.topic_configs(_names(existing))
        configs |= _readable(asked)
        findings += await _rights(cluster, existing, config)
        findings += settings_unreadable([name for name, each in asked.items() if each is None], wanted)
    if not config.create_topics:
        findings += missing_topics(missing, config)
    elif missing:
        findings += await _creation(cluster, missing, config, overview, none_exist=not existing)
        configs |= new_topic_configs(missing, config, _UNKNOWN if broker is None else broker.defaults)
    needed, safety = _names(existing), dict(configs)
    if config.delivery == "exactly_once":
        if broker is not None:
            findings += transaction_state_topic(broker, overview) + transaction_timeout(broker, config)
        if _TRANSACTIONS in overview.topics:
            needed.append(_TRANSACTIONS)
            safety |= _readable(await cluster.topic_configs([_TRANSACTIONS]))
    findings += [
        *keyless_compacted(wanted, configs),
        *large_values_lost(wanted, configs),
        *needed_records_deleted(wanted, configs),
        *shared_keys_compacted(wanted, configs),
        *leaderless(needed, overview.topics),
        *out_of_sync(safety, overview, config),
        *single_replica(configs, overview, config),
        *single_acknowledgement(configs, overview, config),
        *record_sizes(configs, config),
    ]
    return findings


async def _rights(cluster: Cluster, existing: Sequence[WantedTopic], config: SinkConfig) -> list[Finding]:
    """What we may not do with topics that exist."""
    findings = unwritable(await cluster.forbidden_topics(_names(existing), AclOperation.WRITE))
    offsets = [topic.name for topic in existing if topic.kind == "offsets"]
    if offsets:
        findings += unreadable(await cluster.forbidden_topics(offsets, AclOperation.READ), config)
    return findings


async def _creation(
    cluster: Cluster,
    missing: Sequence[WantedTopic],
    config: SinkConfig,
    overview: Overview,
    *,
    none_exist: bool,
) -> list[Finding]:
    """Whether topics can be created. `none_exist`: so none shows whether we may write to topics."""
    refusals = await cluster.refused_topics([new_topic(topic.name, topic.kind, config) for topic in missing])
    findings = uncreatable(refusals, config, len(overview.brokers))
    findings += await _invisible(cluster, refusals)
    if none_exist and not refusals and await cluster.is_restricted():
        findings.append(rights_unknown(missing, config))
    return findings


def existence(
    existing: Sequence[WantedTopic],
    missing: Sequence[WantedTopic],
    topics: Mapping[str, Topic],
    config: SinkConfig,
) -> Finding:
    total = len(existing) + len(missing)
    what = (
        f"{len(existing):,} of {counted(total, 'topic')} exist"
        if missing
        else f"{counted(total, 'topic')} exist{'s' if total == 1 else ''}"
    )
    counts = {topics[topic.name].partitions for topic in existing if not keeps_history(topic.kind)}
    other = sorted(counts - {config.partitions})
    if other:
        what += f" (some with {first_few([str(n) for n in other])} partitions, not {config.partitions})"
    if missing and config.create_topics:
        made = f"a run creates {first_few(_names(missing))}, with {counted(config.partitions, 'partition')}"
        what += f"; {made}"
    return ok(what)


def unwritable(names: Sequence[str]) -> list[Finding]:
    if not names:
        return []
    return [
        error(
            f"no right to write to {counted(len(names), 'topic')}: {first_few(names)}",
            "Kafka refuses every record for them",
            grant(names[0], "Write"),
        )
    ]


def unreadable(names: Sequence[str], config: SinkConfig) -> list[Finding]:
    """`names` has the topic of positions, which at_least_once can do without."""
    finding = error if config.delivery == "exactly_once" else warning
    return [
        finding(
            f"no right to read topic {name}",
            "every start reads the position of the last delivery there",
            grant(name, "Read"),
        )
        for name in names
    ]


def rights_unknown(missing: Sequence[WantedTopic], config: SinkConfig) -> Finding:
    """Our rights to topics are unknown while all of them are still to be created."""
    names = _names(missing)
    read = [topic.name for topic in missing if topic.kind == "offsets" and config.delivery == "exactly_once"]
    also = f", and Read for {read[0]}" if read else ""
    return warning(
        f"whether we may write to {counted(len(names), 'topic')} that a run creates is unknown: "
        f"{first_few(names)}",
        "Kafka tells only of topics that exist; whoever may create one may not always write to it",
        f"kafka-acls.sh --list --topic {names[0]} --resource-pattern-type match has to show Write{also}; "
        "check again once the relay has started",
    )


def _readable(configs: Mapping[str, TopicConfig | None]) -> dict[str, TopicConfig]:
    return {name: config for name, config in configs.items() if config is not None}


def settings_unreadable(hidden: Sequence[str], wanted: Sequence[WantedTopic]) -> list[Finding]:
    """Topics whose settings we may not read. A run needs that right if it is to set records aside."""
    if not hidden:
        return []
    what = f"no right to read the settings of {counted(len(hidden), 'topic')}: {first_few(hidden)}"
    cure = grant(hidden[0], "DescribeConfigs")
    if any(topic.kind == "dead letters" for topic in wanted):
        return [error(what, "errors.on_record: dead_letter needs them once a record is refused", cure)]
    return [warning(what, "whether they accept the records, and keep them, is unknown", cure)]


def missing_topics(missing: Sequence[WantedTopic], config: SinkConfig) -> list[Finding]:
    """Missing topics if a run must not create them."""
    findings: list[Finding] = []
    optional = ("messages",) if config.delivery == "exactly_once" else ("messages", "offsets")
    certain = [topic.name for topic in missing if topic.kind not in optional]
    if certain:
        findings.append(
            error(
                f"{counted(len(certain), 'topic')} missing: {first_few(certain)}",
                "sink.create_topics is false, so a run stops at the first change (or we may not see topics)",
                f"kafka-topics.sh --create --topic {certain[0]} ..., or sink.create_topics: true",
            )
        )
    for topic in missing:
        if topic.kind == "messages":
            why = "the first pg_logical_emit_message would stop a run"
            cure = f"kafka-topics.sh --create --topic {topic.name} ..., or source.messages: false"
            findings.append(warning(f"topic {topic.name} is missing", why, cure))
        elif topic.kind == "offsets" and topic.kind in optional:
            why = "no position is kept: a run does not notice a slot that was lost while pgrelay was down"
            cure = f"kafka-topics.sh --create --topic {topic.name} --config cleanup.policy=compact"
            findings.append(warning(f"topic {topic.name} is missing", why, cure))
    return findings


def uncreatable(refusals: Mapping[str, KafkaError], config: SinkConfig, brokers: int) -> list[Finding]:
    """One finding for each reason, with all topics that Kafka refuses for it."""
    topics: dict[int, list[str]] = {}
    for name, refusal in refusals.items():
        if refusal.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            topics.setdefault(refusal.code(), []).append(name)
    return [_creation_refused(names, refusals[names[0]], config, brokers) for names in topics.values()]


async def _invisible(cluster: Cluster, refusals: Mapping[str, KafkaError]) -> list[Finding]:
    """Topics that exist and that we may not see. One that was created meanwhile is visible by now."""
    existing = [n for n, refusal in refusals.items() if refusal.code() == KafkaError.TOPIC_ALREADY_EXISTS]
    visible = (await cluster.overview()).topics if existing else {}
    if not (names := [name for name in existing if name not in visible]):
        return []
    return [
        error(
            f"no right to see {counted(len(names), 'topic')}: {first_few(names)}",
            "Kafka would not create what exists already, and does not show it to us",
            grant(names[0], "Describe", "Write"),
        )
    ]


def _creation_refused(names: Sequence[str], refusal: KafkaError, config: SinkConfig, brokers: int) -> Finding:
    topics = counted(len(names), "topic")
    if is_transient(refusal):
        what = f"no answer whether {topics} can be created: {first_few(names)}"
        return warning(what, refusal.str(), f"{_RETRIED}; check again later")
    cure = _creation_cure(refusal, names[0], config, brokers)
    return error(f"{topics} can't be created: {first_few(names)}", refusal.str(), cure)


def _creation_cure(refusal: KafkaError, topic: str, config: SinkConfig, brokers: int) -> str:
    code = refusal.code()
    if may_succeed_later(refusal, enough_brokers=config.replication_factor <= brokers):
        return f"{_RETRIED}; if it does not pass, look at the brokers' logs"
    if too_few_brokers(refusal):
        return f"set sink.replication_factor (now {config.replication_factor}) to {brokers} or less"
    if code in UNAUTHORIZED:
        return grant(topic, "Create", "Write")
    if code == KafkaError.TOPIC_EXCEPTION:
        return "change records.prefix or records.topic"
    return "correct sink.topic_config, sink.partitions and sink.replication_factor"


def new_topic_configs(
    missing: Sequence[WantedTopic], config: SinkConfig, broker: TopicConfig
) -> dict[str, TopicConfig]:
    """The configuration of the topics that a run will create: ours over the broker's defaults."""
    configs = {}
    for topic in missing:
        given = topic_options(topic.kind, config)
        configs[topic.name] = TopicConfig(
            _number(given, "max.message.bytes", broker.message_bytes),
            _number(given, "min.insync.replicas", broker.min_in_sync),
            given.get("cleanup.policy", broker.cleanup),
            _number(given, "retention.ms", broker.retention_ms),
        )
    return configs


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    """`default` if the option is missing or not a number (7d): the cluster refuses that topic anyway."""
    try:
        return int(given.get(name, default))
    except ValueError:
        return default


def transaction_state_topic(broker: Broker, overview: Overview) -> list[Finding]:
    """A cluster's first transaction creates its transaction state topic, or waits forever if it can't."""
    if _TRANSACTIONS in overview.topics or broker.transaction_replicas <= len(overview.brokers):
        return []
    wants = counted(broker.transaction_replicas, "replica")
    return [
        error(
            "Kafka can't begin a transaction",
            f"its topic {_TRANSACTIONS} needs {wants}, but there are only {len(overview.brokers)} brokers",
            f"transaction.state.log.replication.factor={len(overview.brokers)} on the brokers; restart them",
        )
    ]


def transaction_timeout(broker: Broker, config: SinkConfig) -> list[Finding]:
    """A producer's transaction timeout must not be longer than the brokers' maximum."""
    ours, most = transaction_timeout_ms(config.kafka), broker.transaction_max_ms
    if ours <= most:
        return []
    return [
        error(
            f"transaction.timeout.ms is {ours}, but the brokers' transaction.max.timeout.ms is {most}",
            "Kafka refuses such transactions, and a run does not start",
            f"set transaction.timeout.ms in sink.kafka to {most} or less, or raise the brokers' maximum",
        )
    ]


def record_sizes(configs: Mapping[str, TopicConfig], config: SinkConfig) -> list[Finding]:
    """The largest record that the producer sends, and the largest that the topics accept."""
    ours = largest_record(config.kafka)
    strict = [name for name, each in configs.items() if each.message_bytes < ours]
    if strict:
        least = min(configs[name].message_bytes for name in strict)
        return [
            warning(
                f"{counted(len(strict), 'topic')} with max.message.bytes below the producer's "
                f"message.max.bytes, {size(ours)}: {first_few(strict)}",
                f"Kafka refuses a record larger than {size(least)}, and a run stops",
                f"set max.message.bytes={ours} for the topics, or message.max.bytes: {least} in sink.kafka",
            )
        ]
    return [ok(f"records of up to {size(ours)} are sent (message.max.bytes in sink.kafka)")]


def _names(topics: Sequence[WantedTopic]) -> list[str]:
    return [topic.name for topic in topics]
