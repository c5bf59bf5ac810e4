"""How far a mirror lags, by the changes around its offsets and at the ends of its topics."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.spark.mirrors.checkpoint import Offsets
from pgrelay.spark.mirrors.kafka_cluster import KafkaCluster, client_options
from pgrelay.spark.records.record_positions import with_positions
from pgrelay.spark.schemas.registry import Registry

# How many offsets to read at each place: some hold tombstones, or the markers of Kafka's transactions.
_OFFSETS_READ: Final = 10

# A first and an end offset.
_Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a reader is behind its topic. An LSN is 0 if none was found; `oldest_s` is since 1970.

    lsn          of the last change read
    newest_lsn   of the last change in the topic
    records      offsets not read yet
    oldest_s     the commit time of the first change not read; None if there is none
    """

    lsn: int = 0
    newest_lsn: int = 0
    records: int = 0
    oldest_s: float | None = None


class TopicEnds:
    """Measures lags by reading a few records of each partition of a relay's topics.

    A topic whose reader and end are where they were is not read again: most of a hundred are idle.
    """

    def __init__(
        self,
        spark: SparkSession,
        servers: str,
        *,
        options: Mapping[str, str] | None = None,
        registry: Registry | None = None,
    ) -> None:
        """`options` are those of Spark's Kafka source, of which only the Kafka client's are used."""
        self._spark = spark
        self._options = client_options(servers, options)
        self._kafka = KafkaCluster(spark, servers, options)
        self._registry = registry
        # By topic: where the reader was in each partition and where that ended, and the lag.
        self._seen: dict[str, tuple[dict[int, _Window], Lag]] = {}

    def lags(self, read: Offsets) -> dict[str, Lag]:
        """The lags of a reader that has read up to these offsets, by topic."""
        ends = self._kafka.end_offsets(read)
        spans = {
            topic: {number: (offset, ends[topic][number]) for number, offset in offsets.items()}
            for topic, offsets in read.items()
        }
        moved = {
            topic: at for topic, at in spans.items() if topic not in self._seen or self._seen[topic][0] != at
        }
        for topic, lag in self._read_lags(moved).items():
            self._seen[topic] = moved[topic], lag
        return {topic: self._seen[topic][1] for topic in spans}

    def _read_lags(self, spans: Mapping[str, Mapping[int, _Window]]) -> dict[str, Lag]:
        """The lags by topic, from the records around the readers and at the ends."""
        frames = [
            with_positions(self._read(window), self._registry).withColumn("is_read", F.lit(is_read))
            for number, is_read in enumerate((True, False, False))
            if (window := _window(spans, number))
        ]
        lags = dict.fromkeys(spans, Lag())
        if frames:
            lsn, is_read = F.col("commit_lsn"), F.col("is_read")
            found = reduce(DataFrame.unionByName, frames).groupBy("topic")
            of_topics = found.agg(
                F.coalesce(F.max(F.when(is_read, lsn)), F.lit(0)),
                F.coalesce(F.max(lsn), F.lit(0)),
                F.min(F.when(~is_read, F.col("ts_ms"))) / 1000,
            )
            for topic, last, newest, oldest_s in of_topics.collect():
                lags[topic] = Lag(last, newest, oldest_s=oldest_s)
        return {
            topic: replace(lag, records=sum(max(0, end - at) for at, end in spans[topic].values()))
            for topic, lag in lags.items()
        }

    def _read(self, window: Mapping[str, Mapping[int, _Window]]) -> DataFrame:
        """The records of a window, which has a first and an end offset for each partition."""
        parts = window.items()
        options = {
            **self._options,
            "assign": json.dumps({topic: list(of) for topic, of in parts}),
            "startingOffsets": json.dumps(
                {topic: {n: start for n, (start, _) in of.items()} for topic, of in parts}
            ),
            "endingOffsets": json.dumps(
                {topic: {n: end for n, (_, end) in of.items()} for topic, of in parts}
            ),
            "failOnDataLoss": "false",  # expired records don't matter here
        }
        return self._spark.read.format("kafka").options(**options).load()


def _window(spans: Mapping[str, Mapping[int, _Window]], which: int) -> dict[str, dict[int, _Window]]:
    """One of the `_windows` of each partition, where it is not empty."""
    found = {
        topic: {number: each for number, at in parts.items() if (each := _windows(*at)[which])[0] < each[1]}
        for topic, parts in spans.items()
    }
    return {topic: parts for topic, parts in found.items() if parts}


def _windows(read: int, end: int) -> tuple[_Window, _Window, _Window]:
    """The offsets to read in a partition: the last before the reader, the next, and the last of all."""
    ahead = min(read + _OFFSETS_READ, end)
    return (
        (max(0, read - _OFFSETS_READ), min(read, end)),
        (read, ahead),
        (max(ahead, end - _OFFSETS_READ), end),
    )
