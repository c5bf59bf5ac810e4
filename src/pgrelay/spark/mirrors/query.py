"""What a streaming query of ours reads, and its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.mirrors.kafka_cluster import KafkaCluster


@dataclass(frozen=True, slots=True)
class QuerySource:
    """`options` are those of Spark's Kafka source; `session` is the one that the query was started in."""

    session: SparkSession
    servers: str
    options: Mapping[str, str] | None
    checkpoint: Checkpoint

    @property
    def kafka(self) -> KafkaCluster:
        return KafkaCluster(self.session, self.servers, self.options)
