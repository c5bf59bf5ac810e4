"""A streaming query that keeps tables of the lake equal to those of Postgres."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pgrelay.errors import SetupError
from pgrelay.spark.failures import one_line, wrap_invalid_arguments, wrap_java_errors
from pgrelay.spark.kafka import read_topics, refuse_invalid_source, sets_starting_offsets
from pgrelay.spark.lake.batch_checks import OnMissing
from pgrelay.spark.lake.cancellation import cancelled_on_stop
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import positions_table
from pgrelay.spark.lake.rejects import refuse_foreign
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.mirrors.batches import Batches, Reading, Writing
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.mirrors.expired_records import refuse_expired, warn_of_expired
from pgrelay.spark.mirrors.missing_targets import filled_topics
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.query_state import remember_checkpoint, track_batch
from pgrelay.spark.mirrors.removed_topics import refuse_removed_topics
from pgrelay.spark.mirrors.state_tables import refuse_pending_rows
from pgrelay.spark.mirrors.topic_ids import TopicIds
from pgrelay.spark.mirrors.topic_warnings import warn_of_topics
from pgrelay.spark.mirrors.whole_transactions import WholeTransactions
from pgrelay.spark.records.changes import refuse_invalid_placeholder
from pgrelay.spark.schemas.registry import Registry
from pgrelay.spark.schemas.schema import refuse_invalid_prefix
from pgrelay.spark.schemas.schema_topic import SchemaTopic

Apply = Callable[[DataFrame, int], None]

_TRIGGER: Final[Mapping[str, str]] = {"processingTime": "5 seconds"}
_NOT_IN_BATCHES: Final = ("continuous", "realTime")  # triggers that Spark has for other queries only


def mirror(
    spark: SparkSession,
    servers: str,
    tables: Mapping[str, str],
    *,
    prefix: str,
    checkpoint: str | os.PathLike[str],
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

    One query reads all topics; `apply_changes` describes a target. Schemas come from the schema topic of the
    relay's `prefix`, and schema changes are followed. `trigger` is that of `DataStreamWriter.trigger`, by
    default every 5 seconds; `options` are those of Spark's Kafka source. A query that was killed goes on from
    its `checkpoint`, with the same result.

    whole_transactions  show whole transactions only, which needs the relay's transaction topic; see
                        `mirror_position`
    on_missing, corrupt_to       as in `apply_changes`
    registry, placeholder        as in `read_changes`
    text_columns        columns by topic that are read as text: `TableSchema.as_text`
    query_name          what the query is called in Spark's pages and listeners: `DataStreamWriter.queryName`

    The mirror waits for a topic that does not exist, with a warning. Raises SetupError if an argument is
    mistaken (such as `tables` that share a target, a `trigger` that Spark does not have, or `servers` and
    `options` that Kafka's client can't make sense of), a target is missing although the checkpoint says that
    its records were read, a topic of the checkpoint is left out or was re-created, rows are held back for
    `whole_transactions` and that is off, retention took records that were not read, or Spark lacks the jars
    of the checkpoint's file system; PgrelayError if the checkpoint can't be written. A later error ends the
    query: `awaitTermination` raises Spark's StreamingQueryException, and `query_error` recovers the original
    error from that.
    """
    if not isinstance(whole_transactions, bool):
        raise SetupError(f"whole_transactions={whole_transactions!r}: write True or False")
    source = _source(spark, servers, options, checkpoint)
    writing = Writing(_validated_targets(spark, tables, using, corrupt_to), using, on_missing, corrupt_to)
    reading = _reading(tables, registry, placeholder, text_columns, source)
    return _query(source, reading, writing, prefix, trigger, query_name, whole_transactions)


def history(
    spark: SparkSession,
    servers: str,
    tables: Mapping[str, str],
    *,
    prefix: str,
    checkpoint: str | os.PathLike[str],
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
    made it, and `__valid_from`, the time of that commit; the same of the change that ended it, as
    `__end_lsn`, `__end_seq` and `__valid_to`, all null while the version holds. A delete or truncate ends a
    version and begins none. Raises SetupError as `mirror` does; without a key the query ends with one.
    """
    source = _source(spark, servers, options, checkpoint)
    writing = Writing(
        _validated_targets(spark, tables, using, corrupt_to), using, on_missing, corrupt_to, history=True
    )
    reading = _reading(tables, registry, placeholder, text_columns, source)
    return _query(source, reading, writing, prefix, trigger, query_name)


def _refuse_invalid_trigger(trigger: Mapping[str, Any] | None) -> None:
    """Raise SetupError if Spark has no such trigger for micro-batches."""
    if not isinstance(trigger or {}, Mapping):
        raise SetupError(f"trigger={trigger!r}: write it as a dict, such as {dict(_TRIGGER)}")
    _, *named = inspect.signature(DataStreamWriter.trigger).parameters
    known = [name for name in named if name not in _NOT_IN_BATCHES]
    for name in trigger or {}:
        if name not in known:
            raise SetupError(f"trigger: there is no {name!r}; write one of {', '.join(known)}")


def _refuse_invalid_name(spark: SparkSession, name: object) -> None:
    """Raise SetupError if a query can't have that name.

    Spark refuses a name in use, even by a query of the same checkpoint, which the new one would stop.
    """
    if not isinstance(name, str) or not name:
        raise SetupError(f"query_name={name!r}: write a name")
    if any(query.name == name for query in spark.streams.active):
        raise SetupError(
            f"query_name={name!r}: a query of that name runs in this session: stop() it first, or write "
            "another name"
        )


def _source(
    spark: SparkSession,
    servers: str,
    options: Mapping[str, str] | None,
    checkpoint: str | os.PathLike[str],
) -> QuerySource:
    refuse_invalid_source(spark, servers, options, streaming=True)
    return QuerySource(spark, servers, options, Checkpoint(spark, checkpoint))


def _reading(
    tables: Mapping[str, str],
    registry: str | Mapping[str, Any] | None,
    placeholder: bool | None,
    text_columns: Mapping[str, list[str]] | None,
    source: QuerySource,
) -> Reading:
    refuse_invalid_placeholder(placeholder)
    if not isinstance(text_columns or {}, Mapping):
        raise SetupError(f"text_columns={text_columns!r}: write a list of columns for each topic, in a dict")
    for topic, columns in (text_columns or {}).items():
        if topic not in tables:
            raise SetupError(f"text_columns: {topic} is not mirrored; {', '.join(tables)} are")
        if isinstance(columns, str):
            raise SetupError(f"text_columns: {topic} has {columns!r}: write a list of columns, [{columns!r}]")
    return Reading(
        None if registry is None else Registry(registry),
        placeholder,
        text_columns or {},
        source.checkpoint if sets_starting_offsets(source.options) else None,
    )


def _validated_targets(
    spark: SparkSession, tables: Mapping[str, str], using: Using, corrupt_to: str | None
) -> dict[str, str]:
    if not isinstance(tables, Mapping) or not tables:
        raise SetupError(
            f"tables={tables!r}: give a target for each topic, {{'app.public.orders': 'lake.orders'}}"
        )
    taken = dict[str, str]()  # the topic, by the target's plain name
    found = {topic: lake_table(spark, target, using) for topic, target in tables.items()}
    for topic, table in found.items():
        if not isinstance(topic, str) or not topic:
            raise SetupError(f"tables: {topic!r} is no topic: write its name")
        other = taken.setdefault(table.canonical_name(), topic)
        if other != topic:
            raise SetupError(
                f"two topics share a target: {other} has {tables[other]} and {topic} has {tables[topic]}, "
                "which are one table: name another for one of them"
            )
    for topic, table in found.items():
        if topic_there := taken.get(positions_table(table).canonical_name()):
            raise SetupError(
                f"{tables[topic_there]}, the target of {topic_there}, is where the mirror keeps what it has "
                f"applied to {tables[topic]}: name another"
            )
    if corrupt_to:
        rejects = lake_table(spark, corrupt_to, using)
        if topic_there := taken.get(rejects.canonical_name()):
            raise SetupError(f"corrupt_to={corrupt_to} is the target of {topic_there}: name another table")
        refuse_foreign(rejects)
    return dict(tables)


def _query(
    source: QuerySource,
    reading: Reading,
    writing: Writing,
    prefix: str,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
    whole_transactions: bool = False,
) -> StreamingQuery:
    """Start the query, after refusing or warning of the problems that can be found before it starts."""
    _refuse_invalid_trigger(trigger)
    refuse_invalid_prefix(prefix)
    spark, servers, options, checkpoint = source.session, source.servers, source.options, source.checkpoint
    if query_name is not None:
        _refuse_invalid_name(spark, query_name)
    tables, using = writing.tables, writing.using
    schemas = SchemaTopic(servers, prefix, options)
    batches = Batches(schemas, reading, writing, filled=filled_topics(source, schemas, tables, using))
    if whole_transactions:
        transactions = WholeTransactions(prefix, batches, source)
        apply, topics = transactions.apply, [*tables, transactions.topic]
    else:
        refuse_pending_rows(source, prefix, tables, using)
        apply, topics = batches.apply, [*tables]
    refuse_removed_topics(source, topics)
    ids = TopicIds(source, topics)
    ids.refuse_deleted()
    refuse_expired(source, topics)
    warn_of_expired(source, tables)
    warn_of_topics(source, tables)
    stream = read_topics(spark, servers, *topics, options=options, streaming=True)
    writer = stream.writeStream.foreachBatch(_wrap_batch(checkpoint, ids, apply))
    writer = writer.option("checkpointLocation", checkpoint.location)
    if query_name is not None:
        writer = writer.queryName(query_name)
    with wrap_java_errors("the query can't start"), wrap_invalid_arguments("the query can't start"):
        query = _with_trigger(writer, trigger or _TRIGGER).start()
    remember_checkpoint(str(query.id), checkpoint)
    return query


def _with_trigger(writer: DataStreamWriter, trigger: Mapping[str, Any]) -> DataStreamWriter:
    try:
        return writer.trigger(**trigger)
    except PySparkException as error:
        raise SetupError(f"trigger={dict(trigger)}: {one_line(error)}") from error


def _wrap_batch(checkpoint: Checkpoint, ids: TopicIds, apply: Apply) -> Apply:
    """`apply`, tracked for the metrics while it runs, and ended by a stop of the query.

    Topics that are new in the batch are checked first. What Java throws is raised as a PgrelayError.
    """

    def apply_tracked(batch: DataFrame, number: int) -> None:
        with (
            track_batch(checkpoint.location, checkpoint.topics_in(number)),
            cancelled_on_stop(batch.sparkSession),
            wrap_java_errors(f"batch {number}"),  # those of no single topic, as from reading them all
        ):
            ids.refuse_deleted_in(number)
            apply(batch, number)

    return apply_tracked
