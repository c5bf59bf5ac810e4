"""A streaming query that keeps tables of the lake equal to those of Postgres."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay.errors import SetupError
from pgrelay.spark.apply import OnMissing, Target
from pgrelay.spark.changes import changes_of
from pgrelay.spark.kafka import read_topic
from pgrelay.spark.lake import Using, lake_table
from pgrelay.spark.order import before
from pgrelay.spark.schema import Position, TableSchema
from pgrelay.spark.schema_topic import SchemaTopic


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
    on_missing: OnMissing = "fail",
    corrupt_to: str | None = None,
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
    stream = read_topic(spark, servers, ",".join(tables), options, streaming=True)
    batches = _Mirror(
        SchemaTopic(servers, prefix, options),
        dict(tables),
        using,
        {"on_missing": on_missing, "corrupt_to": corrupt_to},
        placeholder,
        text_columns or {},
    )
    writer = stream.writeStream.foreachBatch(batches.apply).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"processingTime": "5 seconds"})).start()


class _Mirror:
    """What is done with each micro-batch, and what is remembered between two."""

    def __init__(
        self,
        schemas: SchemaTopic,
        tables: dict[str, str],
        using: Using,
        choices: dict[str, Any],
        placeholder: bool | None,
        text_columns: Mapping[str, list[str]],
    ) -> None:
        self._schemas = schemas
        self._tables = tables
        self._using = using
        self._choices = choices
        self._placeholder = placeholder
        self._text_columns = text_columns
        self._targets: dict[str, Target] = {}

    def apply(self, batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        # Read after the batch was planned: it tells of every row in it, as the relay writes a schema first.
        schemas = self._schemas.read(spark)
        several = len(self._tables) > 1
        if several:
            batch = batch.persist()
        try:
            for topic in self._tables:
                records = batch.where(F.col("topic") == topic)
                schema = schemas.get(topic)
                if schema is not None:
                    self._apply(records, schema.as_text(*self._text_columns.get(topic, ())))
                elif not records.isEmpty():
                    raise SetupError(f"{topic}: the schema topic does not tell of it; is the prefix right?")
        finally:
            if several:
                batch.unpersist()

    def _apply(self, records: DataFrame, schema: TableSchema) -> None:
        """Apply the records of one topic, those of each version of the schema by themselves."""
        target = self._target(records.sparkSession, schema)
        for known, until in self._slices(records, schema, target.positions.schema_position):
            changes = changes_of(records, known, placeholder=self._placeholder)
            if until is not None:
                changes = changes.where(F.coalesce(before(until), F.lit(True)))
            target.apply(changes, known)

    def _target(self, spark: SparkSession, schema: TableSchema) -> Target:
        target = self._targets.get(schema.topic)
        if target is None or target.positions.systemid != schema.systemid:
            table = lake_table(spark, self._tables[schema.topic], self._using)
            rejects = self._choices["corrupt_to"] and lake_table(
                spark, self._choices["corrupt_to"], self._using
            )
            target = Target(table, schema, on_missing=self._choices["on_missing"], rejects=rejects)
            self._targets[schema.topic] = target
        return target

    def _slices(
        self, records: DataFrame, schema: TableSchema, since: Position | None
    ) -> list[tuple[TableSchema, Position | None]]:
        """The schema as the records reach each version of it, and where the next begins; mostly it is one."""
        since = since or schema.versions[0].position
        later = [version.position for version in schema.versions if version.position > since]
        if not later:
            return [(schema, None)]
        changes = changes_of(records, schema, placeholder=self._placeholder)
        [highest] = changes.agg(F.max(F.struct("commit_lsn", "seq"))).first() or [None]
        reached = [position for position in later if highest is not None and position <= tuple(highest)]
        known = [schema.until(position) for position in [since, *reached]]
        return list(zip(known, [*reached, None], strict=True))
