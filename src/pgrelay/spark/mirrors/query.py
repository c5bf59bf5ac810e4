"""What a streaming query of ours reads, and where it remembers how far."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.mirrors.kafka_offsets import KafkaOffsets


@dataclass(frozen=True, slots=True)
class QuerySource:
    """`options` are those of Spark's Kafka source; `session` is that in which the query was started."""

    session: SparkSession
    servers: str
    options: Mapping[str, str] | None
    checkpoint: Checkpoint

    @property
    def offsets(self) -> KafkaOffsets:
        """Those that the cluster has."""
        return KafkaOffsets(self.session, self.servers, self.options)
