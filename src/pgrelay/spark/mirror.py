"""A streaming query that keeps tables of the lake equal to those of Postgres."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay.errors import SetupError
from pgrelay.spark.apply import OnMissing
from pgrelay.spark.batches import Batches, Reading, Writing
from pgrelay.spark.kafka import read_topic
from pgrelay.spark.lake import Using
from pgrelay.spark.registry import Registry
from pgrelay.spark.schema_topic import SchemaTopic
from pgrelay.spark.whole import WholeTransactions


def mirror(
    spark: SparkSession,
    servers: str,
    tables: Mapping[str, str],
    *,
    prefix: str,
    checkpoint: str,
    using: Using = "delta",
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    whole_transactions: bool = False,
    on_missing: OnMissing = "fail",
    corrupt_to: str | None = None,
    registry: str | Mapping[str, Any] | None = None,
    placeholder: bool | None = None,
    text_columns: Mapping[str, list[str]] | None = None,
) -> StreamingQuery:
    """Keep targets equal to tables of Postgres: `tables` names a target for each topic.

    One query reads all topics, and `apply_changes` says what a target is. Schemas come from the schema topic
    of the relay's `prefix`, and their changes are followed. `trigger` is that of `DataStreamWriter.trigger`,
    `options` those of Spark's Kafka source. A query that was killed goes on from its `checkpoint`, and the
    targets end the same. `text_columns` names columns by topic that are read as text.

    Raises SetupError where two topics share a target; what goes wrong later ends the query, which then raises
    it from `awaitTermination`.
    """
    if len(set(tables.values())) < len(tables):
        raise SetupError(f"two topics share a target: {', '.join(sorted(tables.values()))}")
    reading = Reading(Registry(registry) if registry else None, placeholder, text_columns or {})
    writing = Writing(dict(tables), using, on_missing, corrupt_to)
    schemas = SchemaTopic(servers, prefix, options)
    batches: Batches | WholeTransactions = Batches(schemas, reading, writing)
    topics = list(tables)
    if whole_transactions:
        batches = WholeTransactions(prefix, schemas, reading, writing)
        topics.append(batches.topic)
    stream = read_topic(spark, servers, ",".join(topics), options, streaming=True)
    writer = stream.writeStream.foreachBatch(batches.apply).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"processingTime": "5 seconds"})).start()
