"""The topics' cleanup policies: whether they refuse records of a run, or delete what is still needed."""

from collections.abc import Mapping, Sequence

from pgrelay.check.findings import Finding, error, first_few, warning
from pgrelay.check.kafka_tools import configure
from pgrelay.check.topics import WantedTopic
from pgrelay.figures import counted
from pgrelay.kafka.cluster import TopicConfig


def keyless_compacted(wanted: Sequence[WantedTopic], configs: Mapping[str, TopicConfig]) -> list[Finding]:
    """A compacted topic accepts no record without a key, and the record of a TRUNCATE never has a key."""
    compacted = [topic for topic in wanted if topic.name in configs and configs[topic.name].compacted]
    keyless = [topic.name for topic in compacted if topic.keyless]
    findings: list[Finding] = []
    if keyless:
        findings.append(
            error(
                f"{counted(len(keyless), 'compacted topic')} for records without a key: {first_few(keyless)}",
                "a compacted topic refuses such records, and a run stops at the first",
                "set cleanup.policy=delete for the topic; or add a primary key, and set records.key: true",
            )
        )
    keyed = [topic.name for topic in compacted if topic.truncates and not topic.keyless]
    if keyed:
        findings.append(
            warning(
                f"{counted(len(keyed), 'compacted topic')} while TRUNCATE is published: {first_few(keyed)}",
                "the record of a TRUNCATE has no key: a compacted topic refuses it, and a run stops",
                "ALTER PUBLICATION ... SET (publish = 'insert, update, delete'), or cleanup.policy=delete",
            )
        )
    return findings


def large_values_lost(wanted: Sequence[WantedTopic], configs: Mapping[str, TopicConfig]) -> list[Finding]:
    """Compacted topics that in time lose large values: the last record of a key may not have them."""
    names = [
        topic.name
        for topic in wanted
        if topic.partial and not topic.keyless and topic.name in configs and configs[topic.name].compacted
    ]
    if not names:
        return []
    return [
        warning(
            f"{counted(len(names), 'compacted topic')} of tables with large values (TOAST): "
            f"{first_few(names)}",
            "an update leaves out a large value that it does not change, and compaction removes the earlier "
            "record, the only one that has it",
            "ALTER TABLE ... REPLICA IDENTITY FULL, or cleanup.policy=delete for the topic",
        )
    ]


def needed_records_deleted(
    wanted: Sequence[WantedTopic], configs: Mapping[str, TopicConfig]
) -> list[Finding]:
    """Topics of our own whose cleanup policy deletes records that are still needed."""
    findings: list[Finding] = []
    for topic in wanted:
        kept = configs.get(topic.name)
        if kept is not None and topic.kind == "schemas" and not kept.keeps_all:
            why = "consumers that read it from its beginning miss the schemas of older rows"
            cure = configure(topic.name, "cleanup.policy=delete,retention.ms=-1")
            findings.append(warning(f"topic {topic.name} does not keep every schema", why, cure))
        if kept is not None and topic.kind == "offsets" and not kept.keeps_latest:
            why = "once the position is gone, a restart may repeat records"
            cure = configure(topic.name, "cleanup.policy=compact")
            findings.append(error(f"topic {topic.name} deletes records by age, also the position", why, cure))
    return findings


def shared_keys_compacted(wanted: Sequence[WantedTopic], configs: Mapping[str, TopicConfig]) -> list[Finding]:
    """Topics whose records share keys though none replaces another: compaction keeps the last of each key."""
    return [
        warning(
            f"topic {topic.name} is compacted",
            "its records share keys: in time only the last with each key is kept",
            configure(topic.name, "cleanup.policy=delete"),
        )
        for topic in wanted
        if topic.kind in ("messages", "transactions")
        and not topic.keyless
        and topic.name in configs
        and configs[topic.name].compacted
    ]
