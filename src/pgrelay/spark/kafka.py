"""Reading topics by Spark's Kafka source."""

import json
import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pgrelay.errors import SetupError

_OPTIONS: Final = {
    "startingOffsets": "earliest",
    # What an exactly-once relay took back must not be seen.
    "kafka.isolation.level": "read_committed",
    # By default a partition of a topic is one task, and a table's topic often has but one. A read that is no
    # stream heeds the first setting only where the second asks for more tasks than there are partitions.
    "maxRecordsPerPartition": "50000",
    "minPartitions": "2",
}
_OFFSETS: Final = ("startingoffsets", "endingoffsets")
_SPLITTING: Final = ("maxrecordsperpartition", "minpartitions")


def read_topics(
    spark: SparkSession,
    servers: str,
    *topics: str,
    options: Mapping[str, str] | None = None,
    streaming: bool = False,
) -> DataFrame:
    """The records of topics, as Spark's Kafka source gives them; a topic may not be there yet.

    From the beginning, and only what is committed, unless `options` say otherwise. Raises SetupError where
    they tell offsets that are none.
    """
    _refuse_no_offsets(options or {})
    reader = spark.readStream if streaming else spark.read
    # By name, a topic that is missing would be an error: a relay makes it with the table's first row. Spark
    # looks for the pattern anywhere in a topic's name.
    pattern = f"^(?:{'|'.join(map(re.escape, topics))})$"
    given = {**_OPTIONS, **(options or {}), "kafka.bootstrap.servers": servers, "subscribePattern": pattern}
    if allows_loss(given):
        given = _unsplit(given)
    return reader.format("kafka").options(**given).load()


def _refuse_no_offsets(options: Mapping[str, str]) -> None:
    """Raise SetupError for offsets that Spark would refuse only once a query runs."""
    for name, value in options.items():
        # A dict is none: what Spark makes of it is no JSON.
        if name.lower() in _OFFSETS and not _are_offsets(str(value)):
            raise SetupError(
                f"{name}: {value!r} is neither earliest, latest nor offsets by topic and partition in JSON, "
                """as '{"app.public.orders": {"0": 17}}'"""
            )


def _are_offsets(value: str) -> bool:
    if value.strip().lower() in ("earliest", "latest"):
        return True
    try:
        told = json.loads(value)
    except ValueError:
        return False
    parts = list(told.values()) if isinstance(told, dict) else [None]
    return all(
        isinstance(part, dict) and all(key.isdigit() and type(at) is int for key, at in part.items())
        for part in parts
    )


def allows_loss(options: Mapping[str, str] | None) -> bool:
    """Whether these options of Spark's Kafka source have it pass over what is not there any more."""
    given = {name.lower(): str(value).lower() for name, value in (options or {}).items()}
    return given.get("failondataloss") == "false"


def _unsplit(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that make several tasks of a partition, which loss does not go with.

    Where a task finds its first record gone, Spark gives its consumer back and reads on by it: another task
    of the partition takes the same one, and either of them fails, or skips records that are there.
    """
    return {name: value for name, value in options.items() if name.lower() not in _SPLITTING}
