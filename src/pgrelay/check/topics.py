"""The topics that a run writes to: those of the tables, and pgrelay's own."""

from dataclasses import dataclass

from pgrelay.check.findings import Finding, refusal_findings
from pgrelay.check.table_queries import Published
from pgrelay.config import Config
from pgrelay.errors import SetupError
from pgrelay.kafka.topics import TopicKind
from pgrelay.relay.record_options import topics_of


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """`keyless`: some of its records have no key, which a compacted topic refuses.

    `partial`: an update may leave out a large value, which only an earlier record has.
    `truncates`: a TRUNCATE of its tables is relayed as a record, which never has a key.
    """

    name: str
    kind: TopicKind = "rows"
    keyless: bool = False
    partial: bool = False
    truncates: bool = False


def wanted_topics(relayed: Published, config: Config) -> tuple[list[WantedTopic], list[Finding]]:
    """The topics, and what is wrong with their names."""
    records, names, partial = config.records, topics_of(config), relayed.partial
    topics: dict[str, WantedTopic] = {}
    collisions: list[SetupError] = []
    for table in relayed.tables:
        try:
            topic = names.claim(table.schema, table.name)
        except SetupError as refusal:
            collisions.append(refusal)
        else:
            shared = topics.get(topic, WantedTopic(topic))
            topics[topic] = WantedTopic(
                topic,
                keyless=shared.keyless or not (records.key and table.key),
                partial=shared.partial or table.oid in partial,
                truncates=relayed.truncates,
            )
    wanted = list(topics.values())
    wanted.append(WantedTopic(names.schema, "schemas"))
    if records.transaction_topic:
        wanted.append(WantedTopic(names.transaction, "transactions"))
    wanted.append(WantedTopic(names.offsets, "offsets"))
    if config.errors.on_record == "dead_letter":
        wanted.append(WantedTopic(names.dead_letter, "dead letters", keyless=True))
    if config.source.messages:
        wanted.append(WantedTopic(names.message, "messages", keyless=not records.key))
    why = "a run does not start, or stops at the first change of the second"
    fate, cure = "would share a topic with another", "change records.topic"
    return wanted, refusal_findings(collisions, why, noun="table", fate=fate, cure=cure)
