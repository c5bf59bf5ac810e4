"""What a streaming query of ours reads, and where it remembers how far."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pgrelay.spark.mirrors.checkpoint import Checkpoint, Ends
from pgrelay.spark.mirrors.topic_ends import Offsets, client_options, end_offsets, first_offsets, is_written


@dataclass(frozen=True, slots=True)
class QuerySource:
    """`options` are those of Spark's Kafka source; `session` is that in which the query was started."""

    session: SparkSession
    servers: str
    options: Mapping[str, str] | None
    checkpoint: Checkpoint

    def end_offsets(self, wanted: Offsets) -> Ends:
        """Where these partitions end now."""
        return end_offsets(self.session, client_options(self.servers, self.options), wanted)

    def first_offsets(self, topics: Iterable[str]) -> Ends:
        """The first offset that each partition still has, of those of the topics that are there."""
        return first_offsets(self.session, client_options(self.servers, self.options), topics)

    def is_written(self, topic: str) -> bool:
        """Whether a topic has or had records, were they of a transaction that is not committed yet."""
        client = client_options(self.servers, self.options)
        client["kafka.isolation.level"] = "read_uncommitted"
        return is_written(self.session, client, topic)
