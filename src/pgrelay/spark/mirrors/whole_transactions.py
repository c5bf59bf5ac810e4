"""Mirrors that show whole transactions only, up to one commit LSN that they record.

Spark cuts micro-batches anywhere. Records of a transaction that is not complete yet wait in a table of their
own, on disk, so that a transaction may be larger than memory. The rest is applied as usual.
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
from pgrelay.spark.mirrors.batches import AT_ONCE, Batches
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.query_state import held_since
from pgrelay.spark.mirrors.transaction_warnings import TransactionWarnings
from pgrelay.spark.mirrors.transactions import (
    HeldBack,
    Reach,
    held_back,
    reach,
    read_past,
    transaction_topic,
)
from pgrelay.spark.mirrors.whole_tables import WholeTables
from pgrelay.spark.records.record_positions import with_positions
from pgrelay.spark.schemas.schema import TableSchema

_UNREAD_CURE: Final = "pass the registry if the relay writes Avro"
_UNKNOWN_CURE: Final = "give the registry back the schema that it was written under"

# For a transaction's begin: it is in another topic than the rows, and may become visible after them.
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.2

_MANY: Final = 100_000  # held rows, which take longer to read than one more look at what came

# The columns of records that are read more than once.
_LOOKED_AT: Final = ("topic", "partition", "offset", "commit_lsn", "seq", "ts_ms", "boundary")


@dataclass(frozen=True, slots=True)
class _Batch:
    """A micro-batch: the schemas known by now, the query's `own` tables, and records as POSITIONED.

    since  the last commit that was applied before it
    new    the records that came
    held   the records held back until now
    """

    number: int
    schemas: Mapping[str, TableSchema]
    own: WholeTables
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
        self._own: WholeTables | None = None  # from the first batch on
        self._added_topics = AddedTopics(source, batches.writing.tables)
        self._warnings = TransactionWarnings(self.topic)
        self._left = HeldBack()  # by the last batch

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply whole transactions, and hold the rest back; a batch may be repeated."""
        with wrap_java_errors(f"whole transactions by {self.topic}"):
            self._apply(batch, number)

    def _apply(self, records: DataFrame, number: int) -> None:
        spark = records.sparkSession
        schemas = self._batches.schemas(spark)
        again = self._own is None  # only the first batch of a run may be a repetition
        own = self._own = self._own or self._begun(spark, number)
        values = records.where(F.col("value").isNotNull())
        new = with_positions(values, self._batches.reading.registry, self.topic).persist()
        batch = _Batch(number, schemas, own, own.until, new, own.held.after(own.until))
        try:
            reached, left = self._look(batch)
            self._refuse_unread(left)
            if not reached.until and left.rows:
                self._refuse_unwritten(batch)
            self._apply_until(batch, reached.until)
            if left.has_new:
                own.held.add(new.where(F.col("commit_lsn") > reached.until), again=again)
            own.held.clean_up(reached.until, number)
            self._warnings.tell(reached, left, moved=reached.until > batch.since)
            held_since[own.query] = left.oldest_s
            self._left = left
        finally:
            new.unpersist()

    def _begun(self, spark: SparkSession, number: int) -> WholeTables:
        """The query's own tables, which its first batch creates."""
        writing, query = self._batches.writing, self._source.checkpoint.query_id()
        own = WholeTables.of(spark, self._prefix, query, writing.tables, writing.using)
        own.begin(writing.tables, number)
        return own

    def _look(self, batch: _Batch) -> tuple[Reach, HeldBack]:
        """Up to which commit transactions are whole now, and what is left."""
        came = batch.new.select(*_LOOKED_AT, F.lit(True).alias("is_new"))
        if self._left.rows > _MANY and not self._left.ends:
            # Of a large transaction that goes on: without an end, nothing that is held back gets whole.
            left = self._left.and_later(held_back(came, batch.since, self.topic))
            if not left.ends:
                return Reach(batch.since), left
        # If a batch is repeated, some records are there twice, which does no harm.
        pending = came.unionByName(batch.held.select(*_LOOKED_AT, F.lit(False).alias("is_new"))).persist()
        try:
            reached = self._reach(batch, pending)
            return reached, held_back(pending, reached.until, self.topic)
        finally:
            pending.unpersist()

    def _reach(self, batch: _Batch, pending: DataFrame) -> Reach:
        tables = {f"{schema.schema}.{schema.table}": topic for topic, schema in batch.schemas.items()}
        reached = reach(pending, tables, batch.since, {})
        if not reached.waiting:
            return reached
        # Mostly the records are still to come. Those that retention took or that can't be read never do.
        past = read_past(pending, self._source.checkpoint.ends(batch.number))
        if all(past.get(each.topic, 0) <= each.commit_lsn for each in reached.waiting):
            return reached
        return reach(pending, tables, batch.since, past)

    def _apply_until(self, batch: _Batch, until: int) -> None:
        """Apply the transactions up to a commit, and remember it."""
        position = batch.own.position
        # Also while a table catches up, and when this may be the first batch of a run.
        if position is None or until > position.commit_lsn or not self._added_topics.is_over:
            self._apply_and_remember(batch, until)
        else:
            self._apply_due(batch, until)

    def _apply_and_remember(self, batch: _Batch, until: int) -> None:
        own, spark, names = batch.own, batch.new.sparkSession, self._batches.writing.tables
        # All are looked at before one is claimed: one may not fit its topic.
        targets = {names[topic]: self._batches.target(spark, batch.schemas[topic]) for topic in batch.schemas}
        tables = {name: target.table for name, target in targets.items()}
        claimed = own.claim(tables, anew=batch.number == 0)
        self._apply_due(batch, until)
        new = {name: table for name, table in tables.items() if name not in claimed}
        claimed |= own.claim(new, anew=batch.number == 0)
        # The targets of a query with a new checkpoint may be ahead of it.
        ahead = any(target.positions.applied.highest_lsn > until for target in targets.values())
        if self._added_topics.caught_up(own, batch.number, batch.schemas) and not ahead:
            own.remember(until, claimed)
        elif until > batch.since:
            own.set_until(until)

    def _apply_due(self, batch: _Batch, until: int) -> None:
        held = batch.held if until > batch.since else batch.held.limit(0)  # of which none is due
        due = held.where(F.col("commit_lsn") <= until).persist()
        # A record without a position can't be read: report it at once.
        now = batch.new.where(F.coalesce(F.col("commit_lsn") <= until, F.lit(True)))
        try:
            # One at a time if tables share a plan with `from_avro`: each thread rebuilds its map of options
            # in the same place, and they then find duplicate keys.
            at_once = AT_ONCE if self._batches.reading.registry is None else 1
            self._batches.apply_topics(now.unionByName(due), batch.schemas, at_once)
        finally:
            due.unpersist()

    def _refuse_unwritten(self, batch: _Batch) -> None:
        """Raise SetupError if the relay writes no transaction topic: all rows would be held back for ever."""
        if any(self._source.checkpoint.ends(batch.number).get(self.topic, {}).values()):
            return
        deadline = time.monotonic() + _PATIENCE_S
        while not self._source.kafka.is_written(self.topic):
            if time.monotonic() > deadline:
                raise SetupError(
                    f"topic {self.topic} has no records, and nothing else shows where transactions end: set "
                    "records.transaction_topic: true in the relay's configuration, and start the mirror "
                    "again after the relay's next transaction"
                )
            time.sleep(_PAUSE_S)

    def _refuse_unread(self, left: HeldBack) -> None:
        """Raise RecordError: without that begin or end, half a transaction would pass for a whole one."""
        if left.unread is not None:
            partition, offset = left.unread
            cure = _UNREAD_CURE if self._batches.reading.registry is None else _UNKNOWN_CURE
            raise RecordError(
                f"{self.topic} partition {partition} offset {offset}: not the begin or end of a transaction "
                f"that can be read; {cure}"
            )
