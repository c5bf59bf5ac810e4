"""Mirrors that show only whole transactions, up to a single commit LSN that they record.

Spark cuts micro-batches anywhere. Records of a transaction that is not complete yet wait in a table, so that
a transaction may be larger than memory. The rest is applied as usual.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.errors import RecordError, SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.mirrors.added_topics import AddedTopics
from pgrelay.spark.mirrors.batches import MAX_PARALLEL, Batches
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.query_state import held_since
from pgrelay.spark.mirrors.state_tables import StateTables
from pgrelay.spark.mirrors.transaction_warnings import TransactionWarnings
from pgrelay.spark.mirrors.transactions import (
    HeldBack,
    TransactionProgress,
    held_back,
    min_read_lsns,
    transaction_progress,
    transaction_topic,
)
from pgrelay.spark.records.record_positions import with_positions
from pgrelay.spark.schemas.schema import TableSchema

_REGISTRY_CURE: Final = "pass the registry if the relay writes Avro"
_SCHEMA_CURE: Final = "give the registry back the schema that it was written under"

# For a transaction's begin: it is in another topic than the rows, and may become visible after them.
_TIMEOUT_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.2

_MANY_HELD_ROWS: Final = 100_000  # reading so many takes longer than looking at the new records twice

# The columns of records that are read more than once.
_POSITION_COLUMNS: Final = ("topic", "partition", "offset", "commit_lsn", "seq", "ts_ms", "boundary")


@dataclass(frozen=True, slots=True)
class _Batch:
    """A micro-batch: the schemas known by now, the query's `state` tables, and records as POSITIONED.

    since  the last commit that was applied before it
    new    the records that came
    held   the records held back until now
    """

    number: int
    schemas: Mapping[str, TableSchema]
    state: StateTables
    since: int
    new: DataFrame
    held: DataFrame


class WholeTransactions:
    """The micro-batches of a query that reads the transaction topic too."""

    def __init__(self, prefix: str, batches: Batches, source: QuerySource) -> None:
        self.topic = transaction_topic(prefix)
        self._prefix = prefix
        self._batches = batches
        self._source = source
        self._state: StateTables | None = None  # from the first batch on
        self._added_topics = AddedTopics(source, batches.writing.tables)
        self._warnings = TransactionWarnings(self.topic)
        self._last_held = HeldBack()  # what the last batch held back

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply whole transactions, and hold the rest back; a batch may be repeated."""
        with wrap_java_errors(f"whole transactions by {self.topic}"):
            self._apply(batch, number)

    def _apply(self, records: DataFrame, number: int) -> None:
        spark = records.sparkSession
        schemas = self._batches.schemas(spark)
        may_repeat = self._state is None  # only the first batch of a run may be a repetition
        state = self._state = self._state or self._open_state(spark, number)
        values = records.where(F.col("value").isNotNull())
        new = with_positions(values, self._batches.reading.registry, self.topic).persist()
        batch = _Batch(number, schemas, state, state.until, new, state.held.after(state.until))
        try:
            progress, left = self._assess(batch)
            self._refuse_unreadable(left)
            if not progress.until and left.rows:
                self._refuse_unwritten_topic(batch)
            self._apply_until(batch, progress.until)
            if left.has_new:
                state.held.add(new.where(F.col("commit_lsn") > progress.until), may_repeat=may_repeat)
            state.held.clean_up(progress.until, number)
            self._warnings.log(progress, left, has_applied=progress.until > batch.since)
            held_since[state.query] = left.oldest_s
            self._last_held = left
        finally:
            new.unpersist()

    def _open_state(self, spark: SparkSession, number: int) -> StateTables:
        """The query's own tables, which its first batch creates."""
        writing, query = self._batches.writing, self._source.checkpoint.query_id()
        state = StateTables.of(spark, self._prefix, query, writing.tables, writing.using)
        state.create(writing.tables, number)
        return state

    def _assess(self, batch: _Batch) -> tuple[TransactionProgress, HeldBack]:
        """Up to which commit transactions are whole now, and what is held back."""
        new = batch.new.select(*_POSITION_COLUMNS, F.lit(True).alias("is_new"))
        if self._last_held.rows > _MANY_HELD_ROWS and not self._last_held.ends:
            # A large transaction is still going on: without an end, nothing that is held back gets whole.
            left = self._last_held.combined_with(held_back(new, batch.since, self.topic))
            if not left.ends:
                return TransactionProgress(batch.since), left
        # If a batch is repeated, some records are there twice, which does no harm.
        held = batch.held.select(*_POSITION_COLUMNS, F.lit(False).alias("is_new"))
        pending = new.unionByName(held).persist()
        try:
            progress = self._progress(batch, pending)
            return progress, held_back(pending, progress.until, self.topic)
        finally:
            pending.unpersist()

    def _progress(self, batch: _Batch, pending: DataFrame) -> TransactionProgress:
        tables = {f"{schema.schema}.{schema.table}": topic for topic, schema in batch.schemas.items()}
        progress = transaction_progress(pending, tables, batch.since, {})
        if not progress.waiting:
            return progress
        # Mostly the records are still to come. Those that retention took or that can't be read never do.
        read_lsns = min_read_lsns(pending, self._source.checkpoint.end_offsets(batch.number))
        if all(read_lsns.get(each.topic, 0) <= each.commit_lsn for each in progress.waiting):
            return progress
        return transaction_progress(pending, tables, batch.since, read_lsns)

    def _apply_until(self, batch: _Batch, until: int) -> None:
        """Apply the transactions up to a commit, and record it."""
        position = batch.state.position
        # Also while a table catches up, and when this may be the first batch of a run.
        if position is None or until > position.commit_lsn or not self._added_topics.is_done:
            self._apply_and_record(batch, until)
        else:
            self._apply_due(batch, until)

    def _apply_and_record(self, batch: _Batch, until: int) -> None:
        state, spark, names = batch.state, batch.new.sparkSession, self._batches.writing.tables
        # All are checked before any is claimed: one may not fit its topic.
        targets = {names[topic]: self._batches.target(spark, batch.schemas[topic]) for topic in batch.schemas}
        tables = {name: target.table for name, target in targets.items()}
        claimed = state.claim(tables, take_over=batch.number == 0)
        self._apply_due(batch, until)
        new = {name: table for name, table in tables.items() if name not in claimed}
        claimed |= state.claim(new, take_over=batch.number == 0)
        # The targets of a query with a new checkpoint may be ahead of it.
        ahead = any(target.positions.applied.highest_lsn > until for target in targets.values())
        if self._added_topics.check_caught_up(state, batch.number, batch.schemas) and not ahead:
            state.set_position(until, claimed)
        elif until > batch.since:
            state.set_until(until)

    def _apply_due(self, batch: _Batch, until: int) -> None:
        held = batch.held if until > batch.since else batch.held.limit(0)  # of which none is due
        due = held.where(F.col("commit_lsn") <= until).persist()
        # A record without a position can't be read: report it at once.
        now = batch.new.where(F.coalesce(F.col("commit_lsn") <= until, F.lit(True)))
        try:
            # One at a time if tables share a plan with `from_avro`: each thread rebuilds its map of options
            # in the same place, and they then find duplicate keys.
            max_parallel = MAX_PARALLEL if self._batches.reading.registry is None else 1
            self._batches.apply_topics(now.unionByName(due), batch.schemas, max_parallel)
        finally:
            due.unpersist()

    def _refuse_unwritten_topic(self, batch: _Batch) -> None:
        """Raise SetupError if the relay writes no transaction topic: all rows would be held back for ever."""
        if any(self._source.checkpoint.end_offsets(batch.number).get(self.topic, {}).values()):
            return
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._source.kafka.has_records(self.topic):
            if time.monotonic() > deadline:
                raise SetupError(
                    f"topic {self.topic} has no records, and nothing else shows where transactions end: set "
                    "records.transaction_topic: true in the relay's configuration, and start the mirror "
                    "again after the relay's next transaction"
                )
            time.sleep(_POLL_INTERVAL_S)

    def _refuse_unreadable(self, left: HeldBack) -> None:
        """Raise RecordError on a begin or end that can't be read: without it, half a transaction would pass
        for a whole one."""
        if left.first_unreadable is not None:
            partition, offset = left.first_unreadable
            cure = _REGISTRY_CURE if self._batches.reading.registry is None else _SCHEMA_CURE
            raise RecordError(
                f"{self.topic} partition {partition} offset {offset}: not the begin or end of a transaction "
                f"that can be read; {cure}"
            )
