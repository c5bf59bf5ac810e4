"""The checkpoint of a query: its id, where it began, and how far each batch reads.

A file of ours beside Spark's has the ids of the topics.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import wrap_invalid_arguments, wrap_java_errors
from pgrelay.spark.hadoop import file_system, hadoop_path

# By topic and partition; an end is the first offset that is not read.
Offsets = dict[str, dict[int, int]]

_TOPIC_IDS: Final = "pgrelay-topic-ids"  # a JSON object, by topic


class Checkpoint:
    """The checkpoint folder of a query that reads Kafka, on any file system that Spark can use."""

    def __init__(self, spark: SparkSession, location: str | os.PathLike[str]) -> None:
        """Raises SetupError if `location` is no path, and PgrelayError if its file system can't be had."""
        if not isinstance(location, str | os.PathLike) or not os.fspath(location):
            raise SetupError(
                f"checkpoint={location!r}: name the folder in which the query keeps how far it has read"
            )
        self._spark = spark
        self.location = os.fspath(location).rstrip("/")
        where = f"checkpoint {self.location}"
        with wrap_invalid_arguments(where):
            folder = self._path("")
        with wrap_java_errors(where):
            self._files = file_system(spark, folder)

    def query_id(self) -> str:
        """The query's id, which stays the same if the folder is moved."""
        return str(json.loads(self._text("metadata"))["id"])

    def last_committed_batch(self) -> int | None:
        """The number of the last batch that was committed; None if there is none."""
        return self._last("commits")

    def last_planned_batch(self) -> int | None:
        """The number of the last batch that was planned, and may have begun; None if there is none."""
        return self._last("offsets")

    def _last(self, folder: str) -> int | None:
        if not self._files.exists(self._path(folder)):
            return None
        names = [status.getPath().getName() for status in self._files.listStatus(self._path(folder))]
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def end_offsets(self, batch: int) -> Offsets:
        """Where a batch ends in each partition that existed when it was planned."""
        return self._offsets(f"offsets/{batch}")

    def start_offsets(self) -> Offsets:
        """Where the query began to read, in each partition that existed then."""
        return self._offsets("sources/0/0")

    def topics_in(self, batch: int) -> set[str]:
        """The topics from which a batch reads records."""
        return _topics_ahead(
            self.end_offsets(batch), self.end_offsets(batch - 1) if batch else self.start_offsets()
        )

    def topics_read(self) -> set[str]:
        """The topics from which the committed batches have read records."""
        # The query may have begun above offset 0, by retention or `startingOffsets`.
        return _topics_ahead(self.committed_offsets(), self.start_offsets())

    def committed_offsets(self) -> Offsets:
        """How far the committed batches have read; before the first, where the query began."""
        committed = self.last_committed_batch()
        return self.start_offsets() if committed is None else self.end_offsets(committed)

    def topic_ids(self) -> dict[str, str]:
        """Kafka's ids of the topics that the query reads, as far as they were saved."""
        if not self._files.exists(self._path(_TOPIC_IDS)):
            return {}
        ids: dict[str, str] = json.loads(self._text(_TOPIC_IDS))
        return ids

    def save_topic_ids(self, ids: Mapping[str, str]) -> None:
        """Save these ids and no others. Raises PgrelayError if the folder can't be written."""
        with wrap_java_errors(f"checkpoint {self.location}"):
            self._write_ids(ids)

    def _write_ids(self, ids: Mapping[str, str]) -> None:
        # Written whole or not at all: earlier releases wrote no such file, but half a file can't be read.
        new, place = self._path(f".{_TOPIC_IDS}"), self._path(_TOPIC_IDS)
        stream = self._files.create(new, True)
        try:
            stream.write(json.dumps(ids).encode())
        finally:
            stream.close()
        self._files.delete(place, False)
        self._files.rename(new, place)

    def _offsets(self, file: str) -> Offsets:
        if not self._files.exists(self._path(file)):
            return {}
        # A line for each source, after some of Spark's own.
        found: dict[str, dict[str, int]] = json.loads(self._text(file).strip().rpartition("\n")[2])
        return {topic: {int(number): end for number, end in ends.items()} for topic, ends in found.items()}

    def _text(self, file: str) -> str:
        jvm: Any = self._spark._jvm
        stream = self._files.open(self._path(file))
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _path(self, file: str) -> JavaObject:
        return hadoop_path(self._spark, f"{self.location}/{file}")


def _topics_ahead(ends: Offsets, before: Offsets) -> set[str]:
    """The topics of which some partition is further in `ends` than in `before`."""
    return {
        topic
        for topic, partitions in ends.items()
        if any(end > before.get(topic, {}).get(partition, 0) for partition, end in partitions.items())
    }
