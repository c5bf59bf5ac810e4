"""The changes around an offset and at the end of a topic, from which a mirror's lag is computed."""

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

# Offsets to look at: some hold tombstones, or the markers of Kafka's transactions.
_LOOK_AT: Final = 10

# A first and an end offset.
_Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader stands in a topic. An LSN is 0 if none was found; `oldest_s` is since 1970.

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
    """Looks at the ends of a relay's topics, reading a few records of each partition.

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
        # By topic, for each partition where the reader stood and where it ended, and what that said.
        self._seen: dict[str, tuple[dict[int, _Window], Place]] = {}

    def places(self, read: Offsets) -> dict[str, Place]:
        """Where a reader stands that has read up to these offsets, by topic."""
        ends = self._kafka.ends(read)
        stands = {
            topic: {number: (offset, ends[topic][number]) for number, offset in offsets.items()}
            for topic, offsets in read.items()
        }
        moved = {
            topic: at for topic, at in stands.items() if topic not in self._seen or self._seen[topic][0] != at
        }
        for topic, place in self._look(moved).items():
            self._seen[topic] = moved[topic], place
        return {topic: self._seen[topic][1] for topic in stands}

    def _look(self, stands: Mapping[str, Mapping[int, _Window]]) -> dict[str, Place]:
        """What the records around the readers and at the ends say, by topic."""
        frames = [
            with_positions(self._read(window), self._registry).withColumn("is_read", F.lit(is_read))
            for number, is_read in enumerate((True, False, False))
            if (window := _window(stands, number))
        ]
        places = dict.fromkeys(stands, Place())
        if frames:
            lsn, is_read = F.col("commit_lsn"), F.col("is_read")
            found = reduce(DataFrame.unionByName, frames).groupBy("topic")
            of_topics = found.agg(
                F.coalesce(F.max(F.when(is_read, lsn)), F.lit(0)),
                F.coalesce(F.max(lsn), F.lit(0)),
                F.min(F.when(~is_read, F.col("ts_ms"))) / 1000,
            )
            for topic, last, newest, oldest_s in of_topics.collect():
                places[topic] = Place(last, newest, oldest_s=oldest_s)
        return {
            topic: replace(place, records=sum(max(0, end - at) for at, end in stands[topic].values()))
            for topic, place in places.items()
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
            "failOnDataLoss": "false",  # records that retention took don't matter here
        }
        return self._spark.read.format("kafka").options(**options).load()


def _window(stands: Mapping[str, Mapping[int, _Window]], which: int) -> dict[str, dict[int, _Window]]:
    """One of the `_windows` of each partition, where it is not empty."""
    found = {
        topic: {number: each for number, at in parts.items() if (each := _windows(*at)[which])[0] < each[1]}
        for topic, parts in stands.items()
    }
    return {topic: parts for topic, parts in found.items() if parts}


def _windows(read: int, end: int) -> tuple[_Window, _Window, _Window]:
    """The offsets to look at in a partition: the last ones read, the next ones, and the last ones of all."""
    ahead = min(read + _LOOK_AT, end)
    return (max(0, read - _LOOK_AT), min(read, end)), (read, ahead), (max(ahead, end - _LOOK_AT), end)
