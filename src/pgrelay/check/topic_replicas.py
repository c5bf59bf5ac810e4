"""The topics' replicas: whether Kafka acknowledges records now, and keeps them if it loses a broker."""

from collections.abc import Iterable, Mapping

from pgrelay.check.findings import Finding, error, first_few, warning
from pgrelay.check.kafka_tools import configure
from pgrelay.config import SinkConfig
from pgrelay.figures import counted
from pgrelay.kafka.cluster import Overview, Topic, TopicConfig


def leaderless(names: Iterable[str], topics: Mapping[str, Topic]) -> list[Finding]:
    """Topics with a partition that accepts no record now, since no up-to-date broker can lead it."""
    lost = [name for name in names if name in topics and not topics[name].led]
    if not lost:
        return []
    return [
        error(
            f"{counted(len(lost), 'topic')} with a partition that no broker leads: {first_few(lost)}",
            "a run waits: Kafka accepts no record there until an up-to-date broker is back",
            "start the missing brokers",
        )
    ]


def out_of_sync(configs: Mapping[str, TopicConfig], overview: Overview, config: SinkConfig) -> list[Finding]:
    """Topics that accept no record now, since too few replicas are in sync to acknowledge it."""
    topics, made = overview.topics, _new_topic(overview, config)
    stalled = [
        name
        for name, each in configs.items()
        if (topic := topics.get(name, made)).led and topic.in_sync < each.min_in_sync
    ]
    if not stalled:
        return []
    least = configs[stalled[0]].min_in_sync
    return [
        error(
            f"{counted(len(stalled), 'topic')} with fewer replicas in sync than min.insync.replicas: "
            f"{first_few(stalled)}",
            f"a run waits: Kafka acknowledges no record there until {least} replicas have it",
            f"start the missing brokers, set sink.replication_factor: {least} for new topics, or lower "
            "min.insync.replicas",
        )
    ]


def single_replica(
    configs: Mapping[str, TopicConfig], overview: Overview, config: SinkConfig
) -> list[Finding]:
    """Topics with a single replica though there could be more."""
    if len(overview.brokers) == 1:
        return []
    made = _new_topic(overview, config)
    alone = [name for name in configs if overview.topics.get(name, made).replicas == 1]
    if not alone:
        return []
    brokers = len(overview.brokers)
    return [
        warning(
            f"{counted(len(alone), 'topic')} with one replica on {brokers} brokers: {first_few(alone)}",
            "a run waits while its broker is away; if its disk is lost, so are records and the position",
            f"sink.replication_factor: {min(3, brokers)} for new topics, and "
            "kafka-reassign-partitions.sh for those that exist",
        )
    ]


def single_acknowledgement(
    configs: Mapping[str, TopicConfig], overview: Overview, config: SinkConfig
) -> list[Finding]:
    """Topics with several replicas, any one of which may acknowledge alone."""
    topics, made = overview.topics, _new_topic(overview, config)
    unsafe = [
        name
        for name, each in configs.items()
        if topics.get(name, made).replicas > 1 and each.min_in_sync == 1
    ]
    if not unsafe:
        return []
    return [
        warning(
            f"{counted(len(unsafe), 'topic')} with replicas but min.insync.replicas=1: {first_few(unsafe)}",
            "while other brokers are away, what a single broker has counts as delivered, and is lost with it",
            f"{configure(unsafe[0], 'min.insync.replicas=2')}, and for new topics the same in "
            "sink.topic_config (with 2 replicas, both brokers must then be up)",
        )
    ]


def _new_topic(overview: Overview, config: SinkConfig) -> Topic:
    """A topic that a run would create now; Kafka may assign its replicas to brokers that are away."""
    replicas = config.replication_factor
    return Topic(config.partitions, replicas, min(replicas, len(overview.brokers)))
