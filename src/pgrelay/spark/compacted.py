"""Topics whose deletes Kafka forgets."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pgrelay.spark.topic_ends import client_options, client_settings

_log = structlog.get_logger(__name__)

_PATIENCE_MS: Final = 10_000


def warn_of_compacted(
    spark: SparkSession, servers: str, topics: Iterable[str], options: Mapping[str, str] | None
) -> None:
    """Log a warning of each topic that is compacted: a mirror that is away for long misses its deletes.

    Says nothing where the broker does not tell: that needs the right to describe the topics' configuration.
    """
    try:
        compacted = _compacted(spark, client_options(servers, options), set(topics))
    except Py4JError as error:
        _log.debug("the topics' configuration is not told", reason=str(error).partition("\n")[0])
        return
    for topic in compacted:
        _log.warning(
            "a topic is compacted: a mirror that is behind for longer than min.compaction.lag.ms finds "
            "deletes as tombstones alone, which tell no LSN, and keeps the rows",
            topic=topic,
            cure="set cleanup.policy=delete, or min.compaction.lag.ms above the longest time away",
        )


def _compacted(spark: SparkSession, options: Mapping[str, str], topics: set[str]) -> list[str]:
    """Those of the topics that there are and Kafka compacts, by its own client in Spark's JVM."""
    jvm: Any = spark._jvm
    settings = client_settings(spark, options)
    for name in ("default.api.timeout.ms", "request.timeout.ms"):
        settings.put(name, str(_PATIENCE_MS))
    config = jvm.org.apache.kafka.common.config
    kind = getattr(config, "ConfigResource$Type").TOPIC
    client = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        there = sorted(topics & set(client.listTopics().names().get()))
        asked = jvm.java.util.ArrayList()
        for topic in there:
            asked.add(config.ConfigResource(kind, topic))
        told = client.describeConfigs(asked).all().get()
        policies = {
            topic: told.get(config.ConfigResource(kind, topic)).get("cleanup.policy") for topic in there
        }
        return [topic for topic, policy in policies.items() if "compact" in policy.value()]
    finally:
        client.close()
