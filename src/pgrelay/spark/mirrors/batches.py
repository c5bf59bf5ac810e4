"""Applies each micro-batch of a mirror, and keeps what the next one needs."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.errors import GapError, SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.lake.batch_checks import OnMissing, refuse_invalid_on_missing
from pgrelay.spark.lake.history import HistoryTarget
from pgrelay.spark.lake.lookup import FORMATS, lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.mirrors.checkpoint import Checkpoint
from pgrelay.spark.names import constant
from pgrelay.spark.records.changes import Decoder
from pgrelay.spark.records.order import before
from pgrelay.spark.records.record_positions import with_positions
from pgrelay.spark.schemas.registry import Registry
from pgrelay.spark.schemas.schema import Position, TableSchema
from pgrelay.spark.schemas.schema_topic import SchemaTopic

MAX_PARALLEL: Final = 4  # tables; most of a small merge is spent waiting for the table's log


@dataclass(frozen=True)
class Reading:
    """How records become changes."""

    registry: Registry | None = None
    placeholder: bool | None = None
    text_columns: Mapping[str, list[str]] = field(default_factory=dict)
    explicit_start: Checkpoint | None = None  # the query's checkpoint, if `options` set its starting offsets

    def schema(self, schema: TableSchema) -> TableSchema:
        columns = self.text_columns.get(schema.topic)
        return schema.as_text(*columns) if columns else schema

    def skips_beginning(self, topic: str) -> bool:
        """Whether `options` made the query begin after a topic's first record."""
        # Spark uses the option only for a new checkpoint, and it may name the beginning.
        checkpoint = self.explicit_start
        return checkpoint is not None and any(checkpoint.start_offsets().get(topic, {}).values())

    def changes(self, records: DataFrame, schema: TableSchema) -> DataFrame:
        return self._decoder.changes(records, schema)

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.registry, self.placeholder)


@dataclass(frozen=True)
class Writing:
    """Where changes go: a target for each topic."""

    tables: Mapping[str, str]
    using: Using = "delta"
    on_missing: OnMissing = "fail"
    corrupt_to: str | None = None
    history: bool = False

    def __post_init__(self) -> None:
        refuse_invalid_on_missing(self.on_missing)

    def target(self, spark: SparkSession, schema: TableSchema) -> Target:
        table = lake_table(spark, self.tables[schema.topic], self.using)
        rejects = lake_table(spark, self.corrupt_to, self.using) if self.corrupt_to else None
        kind = HistoryTarget if self.history else Target
        return kind(table, schema, on_missing=self.on_missing, rejects=rejects)


class Batches:
    """The micro-batches of one query, applied to all its targets."""

    def __init__(
        self,
        schemas: SchemaTopic,
        reading: Reading,
        writing: Writing,
        *,
        filled: frozenset[str] = frozenset(),
    ) -> None:
        """`filled`: the topics whose targets have the rows of earlier runs of the query."""
        self.reading = reading
        self.writing = writing
        self._filled = filled
        self._schemas = schemas
        self._targets: dict[str, Target] = {}  # by topic; some have no table yet

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply a micro-batch of records. Repeating it leaves the targets the same."""
        # Read after the batch was planned: the relay writes a schema before the rows that need it.
        schemas = self.schemas(batch.sparkSession)
        batch = batch.persist() if len(self.writing.tables) > 1 else batch
        try:
            self.apply_topics(batch, schemas)
        finally:
            batch.unpersist()

    def schemas(self, spark: SparkSession) -> dict[str, TableSchema]:
        """The schemas of the mirrored topics, as far as they are known by now."""
        known = self._schemas.read_with_uncommitted(spark, self.writing.tables)
        taken = FORMATS[self.writing.using].taken
        return {topic: replace(self.reading.schema(schema), taken=taken) for topic, schema in known.items()}

    def apply_topics(
        self, records: DataFrame, schemas: Mapping[str, TableSchema], max_parallel: int = MAX_PARALLEL
    ) -> None:
        """Apply the records of every topic, `max_parallel` topics in parallel. Each topic reads `records`
        again.

        Without records, a target that is missing is created. If `records` have `commit_lsn`, they are whole
        transactions, which no version of a target may split. Raises the error of the first topic that fails,
        in their order. No topic begins after that.
        """
        by_topic = self._by_topic(records)
        failed = threading.Event()

        def apply(topic: str) -> None:
            if failed.is_set():
                return
            try:
                schema = schemas.get(topic)
                if schema is None:
                    _refuse_unknown(by_topic[topic], topic)
                elif topic in by_topic:
                    self.apply_topic(by_topic[topic], schema)
                else:
                    self.create_target(records, schema)
            except BaseException:
                failed.set()
                raise

        new = {topic for topic in schemas if not self._has_target(topic)}
        topics = [topic for topic in self.writing.tables if topic in by_topic or topic in new]
        with ThreadPoolExecutor(max_parallel) as pool:
            started = [
                pool.submit(_with_query_properties(records.sparkSession, apply), topic) for topic in topics
            ]
            for done in started:
                done.result()

    def _by_topic(self, records: DataFrame) -> dict[str, DataFrame]:
        """The records of each mirrored topic that has some; of an only topic, even if it has none."""
        conditions = {topic: f"topic = {constant(topic)}" for topic in self.writing.tables}
        if len(conditions) == 1:
            return {topic: records.where(condition) for topic, condition in conditions.items()}
        places = records.select("topic", F.spark_partition_id()).distinct().select("topic").collect()
        partitions = Counter(row["topic"] for row in places)
        # Each topic is a partition of Spark's or more, and each partition is a task in every job, even if it
        # is empty: a batch of a hundred tables would take ten thousand tasks for each step.
        return {
            topic: records.where(condition).coalesce(partitions[topic])
            for topic, condition in conditions.items()
            if topic in partitions
        }

    def _has_target(self, topic: str) -> bool:
        """Whether this run has created or found a topic's target."""
        target = self._targets.get(topic)
        return target is not None and target.positions.has_target

    def apply_topic(self, records: DataFrame, schema: TableSchema) -> None:
        """Apply the records of one topic."""
        with wrap_java_errors(f"{schema.topic} to {self.writing.tables[schema.topic]}"):
            self._apply_versions(records, schema, self.target(records.sparkSession, schema))

    def create_target(self, records: DataFrame, schema: TableSchema) -> None:
        """Create the target of a topic that has none of the records, if it is missing."""
        with wrap_java_errors(f"{schema.topic} to {self.writing.tables[schema.topic]}"):
            target = self.target(records.sparkSession, schema)
            if not target.positions.has_target:
                self._apply_versions(records.limit(0), schema, target)

    def _apply_versions(self, records: DataFrame, schema: TableSchema, target: Target) -> None:
        """Apply the records of a topic, separately for each version of its schema."""
        since = target.version_position(schema)
        if schema.latest.position <= since:
            self._apply_version(records, schema, target)
            return
        # Positions are read once, so that each record is decoded only by the version that it belongs to.
        whole = "commit_lsn" in records.columns
        positioned = records if whole else with_positions(records, self.reading.registry).persist()
        try:
            for known, part in split_by_version(positioned, schema, since, whole=whole):
                self._apply_version(part, known, target)
        finally:
            positioned.unpersist()

    def _apply_version(self, records: DataFrame, schema: TableSchema, target: Target) -> None:
        # Unused columns would be kept in memory.
        changes = self.reading.changes(records, schema).drop("key", "txid")
        try:
            target.apply(changes, schema)
        except (Py4JJavaError, CapturedException) as error:
            if not target.positions.has_target or target.table.exists():
                raise
            raise target.positions.dropped_error() from error

    def target(self, spark: SparkSession, schema: TableSchema) -> Target:
        """The target of a schema's topic, which may not exist yet; its positions are read once.

        Raises as `Target` does, SetupError if it was dropped or several tables share the topic, and GapError
        if it does not exist and would take in the rows of two clusters.
        """
        schema.refuse_sharing()
        target = self._targets.get(schema.topic)
        if target is None or target.positions.systemid != schema.systemid:
            target = self.writing.target(spark, schema)
            had_target = schema.topic in self._filled or self._has_target(schema.topic)
            if had_target and not target.positions.has_target:
                raise target.positions.dropped_error()
            self._refuse_two_clusters(target, schema)
            self._targets[schema.topic] = target
        return target

    def _refuse_two_clusters(self, target: Target, schema: TableSchema) -> None:
        """Raise GapError if a new target would take in the rows of two clusters."""
        clusters = self._schemas.clusters(schema.topic)
        if target.positions.has_target or len(clusters) < 2:
            return
        if not self.reading.skips_beginning(schema.topic):
            raise GapError(
                f"{schema.topic} holds rows of Postgres clusters {', '.join(clusters)}, whose LSNs can't be "
                "compared: take a new checkpoint, and pass startingOffsets in options, from where the rows "
                f"of {schema.systemid} begin; or use a new prefix"
            )


def split_by_version(
    positioned: DataFrame, schema: TableSchema, since: Position, *, whole: bool = False
) -> Iterator[tuple[TableSchema, DataFrame]]:
    """Each version of the schema that the records reach, with those before the next version; mostly one.

    `whole`: a transaction that changes the columns goes to the later version entirely, which can read the
    earlier rows too. If it changes the key it is split, as a version knows only its own key.
    """
    later = [version.position for version in schema.versions if version.position > since]
    # Records that can't be read have no position; a struct of nulls would be the highest if all are such.
    has_position = F.col("commit_lsn").isNotNull() & F.col("seq").isNotNull()
    [highest] = positioned.agg(F.max(F.when(has_position, F.struct("commit_lsn", "seq")))).first() or [None]
    reached = [position for position in later if highest is not None and position <= tuple(highest)]
    borders = [(lsn, 0 if whole and not schema.has_other_key((lsn, seq)) else seq) for lsn, seq in reached]
    # Records without a position come first: they end the mirror, or are set aside.
    for position, (begin, until) in zip([since, *reached], pairwise([None, *borders, None]), strict=True):
        part = positioned if begin is None else positioned.where(f"NOT {before(begin)}")
        if until is not None:
            part = part.where(f"coalesce({before(until)}, true)")
        yield schema.until(position), part


def _refuse_unknown(records: DataFrame, topic: str) -> None:
    """Raise SetupError if a topic whose schema is unknown has records."""
    if not records.isEmpty():
        raise SetupError(
            f"{topic}: the schema topic has no schema of this topic: check the prefix; if that is right, the "
            "schema topic was deleted: restart the relay, which writes a table's schema again before its "
            "next row; or these records are another program's, such as Debezium: begin after them "
            "(startingOffsets and a new checkpoint)"
        )


def _with_query_properties(spark: SparkSession, apply: Callable[..., None]) -> Callable[..., None]:
    """`apply` for one thread, with a copy of the query's properties: `stop()` cancels by their job group."""
    wrap: Any = inheritable_thread_target(spark)
    # It returns the session itself if Python's threads are not pinned to the JVM's.
    wrapped: Callable[..., None] = apply if wrap is spark else wrap(apply)
    return wrapped
