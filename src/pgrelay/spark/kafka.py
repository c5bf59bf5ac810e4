"""Reading topics by Spark's Kafka source."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

# What an exactly-once relay took back must not be seen.
_OPTIONS: Final = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}


def read_topic(
    spark: SparkSession,
    servers: str,
    topics: str,
    options: Mapping[str, str] | None = None,
    *,
    streaming: bool = False,
) -> DataFrame:
    """The records of a topic, or of several with commas between them, as Spark's Kafka source gives them.

    From the beginning, and only what is committed, unless `options` say otherwise.
    """
    reader = spark.readStream if streaming else spark.read
    given = {**_OPTIONS, **(options or {}), "kafka.bootstrap.servers": servers, "subscribe": topics}
    return reader.format("kafka").options(**given).load()
