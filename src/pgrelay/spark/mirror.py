"""A streaming query that keeps tables of the lake equal to those of Postgres."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay.errors import SetupError
from pgrelay.spark.apply import OnMissing
from pgrelay.spark.batches import Batches, Reading, Writing
from pgrelay.spark.checkpoint import Checkpoint
from pgrelay.spark.compacted import warn_of_compacted
from pgrelay.spark.kafka import read_topics
from pgrelay.spark.lake import Using, lake_table
from pgrelay.spark.missing_targets import refuse_missing_targets
from pgrelay.spark.registry import Registry
from pgrelay.spark.schema_topic import SchemaTopic
from pgrelay.spark.whole import Source, WholeTransactions


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
    query_name: str | None = None,
) -> StreamingQuery:
    """Keep targets equal to tables of Postgres: `tables` names a target for each topic.

    One query reads all topics, and `apply_changes` says what a target is. Schemas come from the schema topic
    of the relay's `prefix`, and their changes are followed. `trigger` is that of `DataStreamWriter.trigger`,
    `options` those of Spark's Kafka source. A query that was killed goes on from its `checkpoint`, and the
    targets end the same.

    whole_transactions  show whole transactions only, which needs the relay's transaction topic; see
                        `mirror_position`
    on_missing, corrupt_to       as in `apply_changes`
    registry, placeholder        as in `read_changes`
    text_columns        columns by topic that are read as text: `TableSchema.as_text`
    query_name          what the query is called in Spark's pages and listeners: `DataStreamWriter.queryName`

    Raises SetupError where two topics share a target, where one is missing of which the checkpoint says that
    records were read, and where `text_columns` has another topic; what goes wrong later ends the query, which
    then raises it from `awaitTermination`.
    """
    reading = Reading(_registry(registry), placeholder, _of(tables, text_columns), _starts(options))
    writing = Writing(_targets(spark, tables, using), using, on_missing, corrupt_to)
    schemas = SchemaTopic(servers, prefix, options)
    known = Checkpoint(spark, checkpoint)
    refuse_missing_targets(spark, known, tables, using, schemas)
    warn_of_compacted(spark, servers, tables, options)
    if whole_transactions:
        source = Source(servers, options, known)
        whole = WholeTransactions(prefix, schemas, reading, writing, source)
        stream = read_topics(spark, servers, *tables, whole.topic, options=options, streaming=True)
        return _start(stream, whole.apply, checkpoint, trigger, query_name)
    stream = read_topics(spark, servers, *tables, options=options, streaming=True)
    return _start(stream, Batches(schemas, reading, writing).apply, checkpoint, trigger, query_name)


def history(
    spark: SparkSession,
    servers: str,
    tables: Mapping[str, str],
    *,
    prefix: str,
    checkpoint: str,
    using: Using = "delta",
    trigger: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    on_missing: OnMissing = "fail",
    corrupt_to: str | None = None,
    registry: str | Mapping[str, Any] | None = None,
    placeholder: bool | None = None,
    text_columns: Mapping[str, list[str]] | None = None,
    query_name: str | None = None,
) -> StreamingQuery:
    """Keep every version of every row (SCD type 2) of tables that have a key; arguments are those of
    `mirror`.

    A target has a row for each version: the table's columns, `__commit_lsn` and `__seq` of the change that
    made it, `__valid_from`, the time of that commit, and of the change that ended it `__valid_to`,
    `__end_lsn` and `__end_seq`, all null while it holds. A delete or truncate ends a version and begins none.
    Raises SetupError where two topics share a target; the query ends with one where a table has no key.
    """
    reading = Reading(_registry(registry), placeholder, _of(tables, text_columns), _starts(options))
    writing = Writing(_targets(spark, tables, using), using, on_missing, corrupt_to, history=True)
    schemas = SchemaTopic(servers, prefix, options)
    refuse_missing_targets(spark, Checkpoint(spark, checkpoint), tables, using, schemas)
    warn_of_compacted(spark, servers, tables, options)
    stream = read_topics(spark, servers, *tables, options=options, streaming=True)
    batches = Batches(schemas, reading, writing)
    return _start(stream, batches.apply, checkpoint, trigger, query_name)


def _registry(where: str | Mapping[str, Any] | None) -> Registry | None:
    return None if where is None else Registry(where)


def _starts(options: Mapping[str, str] | None) -> bool:
    """Whether it is said where to start."""
    return any(name.startswith("starting") for name in options or {})


def _of(tables: Mapping[str, str], text_columns: Mapping[str, list[str]] | None) -> Mapping[str, list[str]]:
    for topic in text_columns or {}:
        if topic not in tables:
            raise SetupError(f"text_columns: {topic} is not mirrored; {', '.join(tables)} are")
    return text_columns or {}


def _targets(spark: SparkSession, tables: Mapping[str, str], using: Using) -> dict[str, str]:
    taken = dict[str, str]()  # the topic, by what the catalog makes of the target's name
    for topic, target in tables.items():
        other = taken.setdefault(lake_table(spark, target, using).plain_name(), topic)
        if other != topic:
            raise SetupError(
                f"two topics share a target: {other} has {tables[other]} and {topic} has {target}, which are "
                "one table: name another for one of them"
            )
    return dict(tables)


def _start(
    stream: DataFrame,
    apply: Callable[[DataFrame, int], None],
    checkpoint: str,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> StreamingQuery:
    writer = stream.writeStream.foreachBatch(apply).option("checkpointLocation", checkpoint)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.trigger(**(trigger or {"processingTime": "5 seconds"})).start()
