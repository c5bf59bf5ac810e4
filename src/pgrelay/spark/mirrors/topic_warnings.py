"""Warnings at a mirror's start: topics that don't exist, and topics whose deletes Kafka compacts away."""

from collections.abc import Iterable, Sequence
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pgrelay.spark.failures import log_unreadable, one_line
from pgrelay.spark.mirrors.query import QuerySource

_log = structlog.get_logger(__name__)


def warn_of_topics(source: QuerySource, topics: Iterable[str]) -> None:
    """Log a warning for each topic that does not exist: the mirror waits for it, but it may be mistyped.

    And for each that is compacted: a mirror that is stopped for long misses deletes. That check needs the
    right to describe the topics' configuration. If no broker answers, there is one warning of that. Raises
    SetupError if Kafka's client refuses its settings.
    """
    try:
        with source.kafka.admin() as client:
            all_topics = _list_topics(client, source.servers)
            if all_topics is None:
                return
            existing = set(topics) & all_topics
            for topic in sorted(set(topics) - existing):
                _log.warning(
                    "a topic does not exist, so the mirror waits for it",
                    topic=topic,
                    cure="the relay creates it with the table's first row; if there was one, check the name",
                )
            compacted = _compacted_topics(source.session, client, sorted(existing))
    except Py4JError as error:
        log_unreadable("the topics' configuration", error)
        return
    for topic in compacted:
        _log.warning(
            "a topic is compacted: a mirror that is behind for longer than min.compaction.lag.ms finds "
            "deletes only as tombstones, which have no LSN, and keeps the rows",
            topic=topic,
            cure="set cleanup.policy=delete, or min.compaction.lag.ms above the longest time away",
        )


def _list_topics(client: Any, servers: str) -> set[str] | None:
    """The topics that this user may see; None, with a warning, if no broker answers."""
    try:
        return set(client.listTopics().names().get())
    except Py4JError as error:
        _log.warning(
            "no broker answers; the mirror waits some minutes for one",
            servers=servers,
            reason=one_line(error),
        )
        return None


def _compacted_topics(spark: SparkSession, client: Any, existing: Sequence[str]) -> list[str]:
    """Those topics that Kafka compacts."""
    jvm: Any = spark._jvm
    config = jvm.org.apache.kafka.common.config
    kind = getattr(config, "ConfigResource$Type").TOPIC
    resources = {topic: config.ConfigResource(kind, topic) for topic in existing}
    configs = client.describeConfigs(list(resources.values())).all().get()
    policies = {topic: configs.get(resource).get("cleanup.policy") for topic, resource in resources.items()}
    return [topic for topic, policy in policies.items() if "compact" in policy.value()]
