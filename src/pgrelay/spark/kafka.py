"""Reading topics with Spark's Kafka source."""

import json
import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pgrelay.errors import SetupError

# Kafka's client, wherever we read with it.
CLIENT: Final = {
    # Hides the records of transactions that an exactly-once relay aborted.
    "kafka.isolation.level": "read_committed",
    # After each fetch Spark asks where the partition ends. The answer follows that to the next fetch, which
    # the client has already sent, and which a broker holds back at the end of a topic, by default for 500 ms.
    "kafka.fetch.max.wait.ms": "10",
}
_OPTIONS: Final = {
    **CLIENT,
    "startingOffsets": "earliest",
    # By default a partition is one task, and a table's topic often has one partition. A batch read heeds the
    # first setting only if the second asks for more tasks than there are partitions.
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
    """The records of topics, as Spark's Kafka source gives them; a topic may not exist yet.

    Reads from the beginning, and only committed records, unless `options` say otherwise. Raises SetupError
    if their offsets are invalid.
    """
    _refuse_no_offsets(options or {})
    reader = spark.readStream if streaming else spark.read
    # By name, a missing topic would be an error, and the relay creates a topic with the table's first row.
    # The pattern is anchored, since Spark looks for it anywhere in a topic's name.
    pattern = f"^(?:{'|'.join(map(re.escape, topics))})$"
    given = {**_OPTIONS, **(options or {}), "kafka.bootstrap.servers": servers, "subscribePattern": pattern}
    if allows_loss(given):
        given = _unsplit(given)
    return reader.format("kafka").options(**given).load()


def _refuse_no_offsets(options: Mapping[str, str]) -> None:
    """Raise SetupError for invalid offsets, which Spark would refuse only once a query runs."""
    for name, value in options.items():
        # A dict is refused too: Spark would turn it into text that is not JSON.
        if name.lower() in _OFFSETS and not _are_offsets(str(value)):
            raise SetupError(
                f"{name}: {value!r} is neither earliest, latest nor offsets by topic and partition: write "
                """them in JSON, as '{"app.public.orders": {"0": 17}}'"""
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
    """Whether these options let Spark's Kafka source skip records that are gone."""
    given = {name.lower(): str(value).lower() for name, value in (options or {}).items()}
    return given.get("failondataloss") == "false"


def tells_start(options: Mapping[str, str] | None) -> bool:
    """Whether these options say where a new checkpoint begins."""
    return any(name.lower().startswith("starting") for name in options or {})


def _unsplit(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that split a partition into several tasks, which is unsafe with losses.

    If a task finds its first record gone, Spark returns its consumer to the pool, yet reads on with it.
    Another task of the partition takes the same one, and either of them fails, or skips existing records.
    """
    return {name: value for name, value in options.items() if name.lower() not in _SPLITTING}
