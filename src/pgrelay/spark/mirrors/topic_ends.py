"""The changes around an offset and at the end of a topic, from which a mirror's lag is computed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.spark.mirrors.kafka_offsets import KafkaOffsets, Offsets, client_options
from pgrelay.spark.records.changes import Decoder
from pgrelay.spark.schemas.registry import Registry
from pgrelay.spark.schemas.schema import TableSchema
from pgrelay.spark.schemas.schema_topic import SchemaTopic

# Offsets to look at: some hold tombstones, or the markers of Kafka's transactions.
_LOOK_AT: Final = 10


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
    """Looks at the ends of a relay's topics, reading a few records of each partition."""

    def __init__(
        self,
        spark: SparkSession,
        servers: str,
        *,
        prefix: str,
        options: Mapping[str, str] | None = None,
        registry: Registry | None = None,
    ) -> None:
        """`options` are those of Spark's Kafka source, of which only the Kafka client's are used."""
        self._spark = spark
        self._options = client_options(servers, options)
        self._offsets = KafkaOffsets(spark, servers, options)
        self._schemas = SchemaTopic(servers, prefix, options)
        self._decoder = Decoder(registry)

    def places(self, read: Offsets) -> dict[str, Place]:
        """Where a reader stands that has read up to these offsets, by topic."""
        ends = self._offsets.ends(read)
        records = {
            topic: sum(max(0, ends[topic][number] - offset) for number, offset in offsets.items())
            for topic, offsets in read.items()
        }
        found = self._look(read, ends)
        return {
            topic: replace(
                place := found.get(topic, Place()), records=n, oldest_s=place.oldest_s if n else None
            )
            for topic, n in records.items()
        }

    def _look(self, read: Offsets, ends: Offsets) -> dict[str, Place]:
        """What the records around these offsets and at the end say, by topic."""
        schemas = self._schemas.read(self._spark, read)
        frames = [
            self._placed(self._read(topic, window), offsets, schemas[topic])
            for topic, offsets in read.items()
            if topic in schemas
            for window in _windows(offsets, ends[topic])
        ]
        if not frames:
            return {}
        lsn, is_read = F.col("commit_lsn"), F.col("is_read")
        rows = (
            reduce(DataFrame.unionByName, frames)
            .groupBy("topic")
            .agg(
                F.coalesce(F.max(F.when(is_read, lsn)), F.lit(0)).alias("lsn"),
                F.coalesce(F.max(lsn), F.lit(0)).alias("newest"),
                F.min(F.when(~is_read, F.unix_micros("ts"))).alias("oldest"),
            )
            .collect()
        )
        return {
            row["topic"]: Place(
                row["lsn"], row["newest"], oldest_s=None if row["oldest"] is None else row["oldest"] / 1e6
            )
            for row in rows
        }

    def _read(self, topic: str, window: Mapping[int, tuple[int, int]]) -> DataFrame:
        """The records of a topic in a window, which has a first and an end offset for each partition."""
        options = {
            **self._options,
            "assign": json.dumps({topic: list(window)}),
            "startingOffsets": json.dumps({topic: {number: start for number, (start, _) in window.items()}}),
            "endingOffsets": json.dumps({topic: {number: stop for number, (_, stop) in window.items()}}),
            "failOnDataLoss": "false",  # records that retention took don't matter here
        }
        return self._spark.read.format("kafka").options(**options).load()

    def _placed(self, records: DataFrame, offsets: Mapping[int, int], schema: TableSchema) -> DataFrame:
        changes = self._decoder.changes(records, schema)
        is_read = reduce(
            lambda found, part: found.when(F.col("partition") == part[0], F.col("offset") < part[1]),
            offsets.items(),
            F.when(F.lit(False), F.lit(True)),
        )
        return changes.select("topic", "commit_lsn", "ts", is_read.alias("is_read"))


def _windows(read: Mapping[int, int], ends: Mapping[int, int]) -> list[dict[int, tuple[int, int]]]:
    """A few offsets around where the reader stands, and a few at the end."""
    around = {
        number: (max(0, offset - _LOOK_AT), min(offset + _LOOK_AT, ends[number]))
        for number, offset in read.items()
    }
    last = {
        number: (max(stop, ends[number] - _LOOK_AT), ends[number]) for number, (_, stop) in around.items()
    }
    windows = [{number: (a, b) for number, (a, b) in window.items() if a < b} for window in (around, last)]
    return [window for window in windows if window]
