"""Reads topics with Spark's Kafka source, and checks its options."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import wrap_invalid_arguments
from pgrelay.spark.session import require_session

_ISOLATION: Final = "kafka.isolation.level"
# Options of Kafka's client, wherever we read with it.
CLIENT_DEFAULTS: Final = {
    # Hides the records of transactions that an exactly-once relay aborted.
    _ISOLATION: "read_committed",
    # After each fetch Spark asks where the partition ends. The answer follows that to the next fetch, which
    # the client has already sent, and which a broker holds back at the end of a topic, by default for 500 ms.
    "kafka.fetch.max.wait.ms": "10",
}
_DEFAULTS: Final = {
    **CLIENT_DEFAULTS,
    "startingOffsets": "earliest",
    # By default a partition is one task, and a table's topic often has one partition. A batch read obeys the
    # first setting only if the second asks for more tasks than there are partitions.
    "maxRecordsPerPartition": "50000",
    "minPartitions": "2",
}
# The options of Spark's Kafka source, besides the topics and those that begin with `kafka.`: Spark's
# documentation, "Structured Streaming + Kafka Integration Guide".
_SOURCE_OPTIONS: Final = (
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"),
    *("startingOffsetsByTimestampStrategy", "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"),
    *("failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger"),
    *("minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix", "includeHeaders"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
)
# In lower case, since Spark ignores the case of options.
_OFFSETS: Final = ("startingoffsets", "endingoffsets")
_COUNTS: Final = ("maxoffsetspertrigger", "minoffsetspertrigger")
_SPLITTING: Final = ("maxrecordsperpartition", "minpartitions")
_TIMES: Final = ("startingtimestamp", "endingtimestamp")
_BOOLEANS: Final = ("failondataloss", "includeheaders")
_TOPICS: Final = ("subscribe", "subscribepattern", "assign")
_ISOLATIONS: Final = ("read_committed", "read_uncommitted")


def read_topics(
    spark: SparkSession,
    servers: str,
    *topics: str,
    options: Mapping[str, str] | None = None,
    streaming: bool = False,
) -> DataFrame:
    """The records of topics, as Spark's Kafka source returns them; a topic may not exist yet.

    Reads from the beginning, and only committed records, unless `options` say otherwise. Raises SetupError
    as `refuse_invalid_source` does, and for an option that Spark itself refuses.
    """
    refuse_invalid_source(spark, servers, options, streaming=streaming)
    reader = spark.readStream if streaming else spark.read
    # By name, a missing topic would be an error, and the relay creates a topic with the table's first row.
    # The pattern is anchored, since Spark looks for it anywhere in a topic's name.
    pattern = f"^(?:{'|'.join(map(re.escape, topics))})$"
    given = {**_DEFAULTS, **(options or {}), "kafka.bootstrap.servers": servers, "subscribePattern": pattern}
    if allows_data_loss(given):
        given = _without_splitting(given)
    with wrap_invalid_arguments("options"):
        return reader.format("kafka").options(**given).load()


def refuse_invalid_source(
    spark: SparkSession, servers: str, options: Mapping[str, str] | None, *, streaming: bool
) -> None:
    """Raise SetupError for mistakes that Spark would report only once a query runs, or never."""
    require_session(spark)
    if not isinstance(servers, str) or not servers:
        raise SetupError(f"servers={servers!r}: write the brokers, 'host:port,host:port'")
    if not isinstance(options or {}, Mapping):
        raise SetupError("options: write a dict of options, such as {'startingOffsets': 'latest'}")
    for name, value in (options or {}).items():
        if not isinstance(name, str):
            raise SetupError(f"options: {name!r} is no option's name: write a text")
        if wrong := _mistake(name.lower(), value, streaming):
            raise SetupError(f"{name}: {wrong}")


def _mistake(option: str, value: object, streaming: bool) -> str | None:
    """What is wrong with an option, and the cure; None if nothing is known to be wrong."""
    if value is None:  # such as a variable of the environment that is not set
        return "there is no value: write one, or leave it out"
    if option in _TOPICS:
        return "the topics are arguments of the call: leave it out"
    if streaming and option.startswith("ending"):
        return "a stream has no end: leave it out; the trigger {'availableNow': True} reads what is there"
    if option in _COUNTS and not _is_positive(value):
        return f"{value!r} is no number of records: write 1 or more"
    if option in _SPLITTING and not _is_positive(value):
        return f"{value!r} is no number: write 1 or more"
    if option in _TIMES and not str(value).isdecimal():
        return f"{value!r} is no time: write milliseconds since 1970"
    if option in _BOOLEANS and str(value).lower() not in ("true", "false"):
        return f"{value!r} is no switch: write true or false"
    if option == _ISOLATION and value not in _ISOLATIONS:
        return f"{value!r} is no isolation level: write {' or '.join(_ISOLATIONS)}"
    # A dict is refused too: Spark would turn it into text that is not JSON.
    if option in _OFFSETS and not _are_valid_offsets(str(value)):
        return (
            f"{value!r} is neither earliest, latest nor offsets by topic and partition: write them in JSON, "
            """as '{"app.public.orders": {"0": 17}}'"""
        )
    near = _closest_option(option)
    return None if near is None else f"Spark's Kafka source has no such option: did you mean {near}?"


def _is_positive(value: object) -> bool:
    return str(value).isdecimal() and int(str(value)) > 0


def _closest_option(option: str) -> str | None:
    """The option of which this one, which Spark would ignore, looks like a misspelling; None if of none."""
    known = {name.lower(): name for name in _SOURCE_OPTIONS}
    if option in known or option.startswith("kafka."):
        return None
    near = get_close_matches(option, known, n=1, cutoff=0.85)
    return known[near[0]] if near else None


def _are_valid_offsets(value: str) -> bool:
    if value.strip().lower() in ("earliest", "latest"):
        return True
    try:
        topics = json.loads(value)
    except ValueError:
        return False
    parts = list(topics.values()) if isinstance(topics, dict) else [None]
    return all(
        isinstance(part, dict) and all(key.isdigit() and type(at) is int for key, at in part.items())
        for part in parts
    )


def allows_data_loss(options: Mapping[str, str] | None) -> bool:
    """Whether these options let Spark's Kafka source skip records that are gone."""
    given = {name.lower(): str(value).lower() for name, value in (options or {}).items()}
    return given.get("failondataloss") == "false"


def sets_starting_offsets(options: Mapping[str, str] | None) -> bool:
    """Whether these options say where a query with a new checkpoint begins."""
    return any(name.lower().startswith("starting") for name in options or {})


def _without_splitting(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that split a partition into several tasks, which is unsafe with losses.

    If a task finds its first record gone, Spark returns its consumer to the pool, yet goes on reading with
    it. Another task of the partition takes the same one, and either fails, or skips existing records.
    """
    return {name: value for name, value in options.items() if name.lower() not in _SPLITTING}
