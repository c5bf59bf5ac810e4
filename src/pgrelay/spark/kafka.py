"""Reading topics by Spark's Kafka source."""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

_OPTIONS: Final = {
    "startingOffsets": "earliest",
    # What an exactly-once relay took back must not be seen.
    "kafka.isolation.level": "read_committed",
    # By default a partition of a topic is one task, and a table's topic often has but one. A read that is no
    # stream heeds the first setting only where the second asks for more tasks than there are partitions.
    "maxRecordsPerPartition": "50000",
    "minPartitions": "2",
}


def read_topics(
    spark: SparkSession,
    servers: str,
    *topics: str,
    options: Mapping[str, str] | None = None,
    streaming: bool = False,
) -> DataFrame:
    """The records of topics, as Spark's Kafka source gives them; a topic may not be there yet.

    From the beginning, and only what is committed, unless `options` say otherwise.
    """
    reader = spark.readStream if streaming else spark.read
    # By name, a topic that is missing would be an error: a relay makes it with the table's first row. Spark
    # looks for the pattern anywhere in a topic's name.
    pattern = f"^(?:{'|'.join(map(re.escape, topics))})$"
    given = {**_OPTIONS, **(options or {}), "kafka.bootstrap.servers": servers, "subscribePattern": pattern}
    return reader.format("kafka").options(**given).load()
