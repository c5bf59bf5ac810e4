"""Mirrors that show whole transactions only, up to one commit LSN that they record.

Spark cuts micro-batches anywhere. What belongs to a transaction of which something is still to come waits in
a table of its own, on disk, so that a transaction may be larger than memory; the rest is applied as ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay.encode.topics import shorten
from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.batches import AT_ONCE, Batches, Reading, Writing
from pgrelay.spark.checkpoint import Checkpoint, Ends
from pgrelay.spark.failures import told_of
from pgrelay.spark.holding import holds
from pgrelay.spark.lake import LakeTable
from pgrelay.spark.schema import TableSchema
from pgrelay.spark.schema_topic import SchemaTopic
from pgrelay.spark.topic_ends import client_options, end_offsets
from pgrelay.spark.transactions import Reach, Waiting, oldest_after, reach, read_past, with_positions
from pgrelay.spark.whole_tables import WholeTables

_log = structlog.get_logger(__name__)

_LOST: Final = "retention or startingOffsets left them out, or they can't be read"
_CURE: Final = (
    "where they are lost, start with a new checkpoint, and startingOffsets behind them in all topics, the "
    "transaction topic among them"
)


@dataclass(frozen=True, slots=True)
class Source:
    """What a query reads from, and where it remembers how far."""

    servers: str
    options: Mapping[str, str] | None
    checkpoint: Checkpoint


class WholeTransactions:
    """The micro-batches of a query that reads the transaction topic too."""

    def __init__(
        self, prefix: str, schemas: SchemaTopic, reading: Reading, writing: Writing, source: Source
    ) -> None:
        self.topic = shorten(f"{prefix}.transaction")
        self._prefix = prefix
        self._batches = Batches(schemas, reading, writing)
        self._reading = reading
        self._writing = writing
        self._source = source
        self._query = ""
        self._until: int | None = None  # what is applied; more than is remembered while targets differ
        self._added: set[str] | None = None  # topics that are not as far as the others yet
        self._joining: Ends | None = None  # where those ended when they were first seen
        self._waiting: tuple[Waiting, ...] = ()  # as of the last batch
        self._told = False

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply what is whole, and hold the rest back; a batch may come again."""
        with told_of(f"whole transactions by {self.topic}"):
            self._apply(batch, number)

    def _apply(self, batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        schemas = self._batches.schemas(spark)
        own = self._own(spark, number)
        position = own.position()
        remembered = -1 if position is None else position.commit_lsn
        since = own.until() if self._until is None else self._until
        records = batch.where(F.col("value").isNotNull())
        new = with_positions(records, self._reading.registry, self.topic).persist()
        # Some are there twice where a batch comes again, which does no harm.
        pending = new.unionByName(own.held())
        boundaries = pending.where("boundary IS NOT NULL").select("boundary.*").distinct().persist()
        try:
            found = self._reach(pending, boundaries, schemas, since, number)
            if position is None and found.until == since:
                self._refuse_without_ends(new)
            until = found.until
            goes_on = until > remembered or self._added != set()
            claimed = self._targets(spark, schemas) if goes_on else {}
            own.claim(claimed.values(), anew=number == 0)
            self._apply_until(new, own.held(), until, schemas)
            if goes_on:
                there = self._targets(spark, schemas)
                made = {name: table for name, table in there.items() if name not in claimed}
                own.claim(made.values(), anew=number == 0)
                if self._are_equal(spark, own, until, schemas, number):
                    own.remember(until, claimed | made)
                elif until > since:
                    own.set_until(until)
            own.hold(new, until)
            self._until = until
            self._tell(found)
            holds(self._query, oldest_after(boundaries, until))
        finally:
            boundaries.unpersist()
            new.unpersist()

    def _own(self, spark: SparkSession, number: int) -> WholeTables:
        self._query = self._query or self._source.checkpoint.query_id()
        writing = self._writing
        own = WholeTables.of(spark, self._prefix, self._query, writing.tables, writing.using)
        own.begin(writing.tables, number)
        return own

    def _reach(
        self,
        pending: DataFrame,
        boundaries: DataFrame,
        schemas: Mapping[str, TableSchema],
        since: int,
        number: int,
    ) -> Reach:
        tables = {f"{schema.schema}.{schema.table}": topic for topic, schema in schemas.items()}
        found = reach(pending, boundaries, tables, since, {})
        if not found.waiting:
            return found
        # Mostly more is to come. But nobody waits for what retention took, or for what can't be read.
        past = read_past(pending, self._source.checkpoint.ends(number))
        if all(past.get(each.topic, 0) <= each.commit_lsn for each in found.waiting):
            return found
        return reach(pending, boundaries, tables, since, past)

    def _apply_until(
        self, new: DataFrame, held: DataFrame, until: int, schemas: Mapping[str, TableSchema]
    ) -> None:
        due = held.where(F.col("commit_lsn") <= until).persist()
        # What has no position can't be read: let it be told of at once.
        now = new.where(F.coalesce(F.col("commit_lsn") <= until, F.lit(True)))
        try:
            # With `from_avro` in the plan that tables share: its map of options is built anew by each thread,
            # in one place, and they then find keys twice.
            at_once = AT_ONCE if self._reading.registry is None else 1
            self._batches.apply_tables(now.unionByName(due), schemas, at_once)
        finally:
            due.unpersist()

    def _refuse_without_ends(self, new: DataFrame) -> None:
        """Raise SetupError where the relay writes no transaction topic: all would be held back for ever."""
        outside = F.col("value").cast("string").endswith('"transaction":null}')
        first = new.where(outside).select("topic", "partition", "offset").first()
        if first is not None:
            raise SetupError(
                f"{first['topic']} partition {first['partition']} offset {first['offset']} belongs to no "
                "transaction: whole ones need records.transaction_topic: true in the relay's configuration"
            )

    def _are_equal(
        self,
        spark: SparkSession,
        own: WholeTables,
        until: int,
        schemas: Mapping[str, TableSchema],
        number: int,
    ) -> bool:
        """Whether all targets are equal to Postgres at a commit."""
        # A query that begins anew comes to what its targets have already.
        known = (self._batches.target(spark, schema).positions.applied for schema in schemas.values())
        ahead = any(lsn > until for applied in known for lsn, _ in applied.values())
        return self._caught_up(spark, own, schemas, number) and not ahead

    def _targets(self, spark: SparkSession, schemas: Mapping[str, TableSchema]) -> dict[str, LakeTable]:
        """The targets that are there and fit their topics, by the names that the mirror was given.

        Raises SetupError or GapError of one that does not: whoever it belongs to, it stays as it is.
        """
        named = {self._writing.tables[topic]: schema for topic, schema in schemas.items()}
        targets = {name: self._batches.target(spark, schema).table for name, schema in named.items()}
        return {name: table for name, table in targets.items() if table.exists()}

    def _caught_up(
        self, spark: SparkSession, own: WholeTables, schemas: Mapping[str, TableSchema], number: int
    ) -> bool:
        """Whether topics that were added are read to where they ended when this query first saw them.

        The ends of their older transactions were read long ago: nothing else tells when they are complete.
        """
        topics = set(self._writing.tables)
        if self._added is None:
            known = own.topics()
            self._added = topics - known
            if known - topics:
                # One that is left out has to catch up when it comes back.
                own.set_topics(known & topics)
        if self._added:
            ends = self._source.checkpoint.ends(number)
            if any(topic in schemas for topic in self._added - ends.keys()):
                # A batch that comes again, and was planned without a topic that there is.
                return False
            if self._joining is None:
                client = client_options(self._source.servers, self._source.options)
                partitions = {topic: ends.get(topic, {}) for topic in self._added}
                self._joining = end_offsets(spark, client, partitions)
            for topic, joined in self._joining.items():
                if any(ends.get(topic, {}).get(partition, 0) < end for partition, end in joined.items()):
                    return False
            own.set_topics(topics)
            self._added = set()
        return True

    def _tell(self, found: Reach) -> None:
        """Log what is lost, and once what waits without any more of it having come."""
        for each in found.lost:
            _log.warning(
                "a transaction is shown without records that were not read", **_place(each), reason=_LOST
            )
        if found.waiting != self._waiting:
            self._told = False
        elif found.waiting and not self._told:
            self._told = True
            for each in found.waiting:
                _log.warning("transactions wait for records of this one", **_place(each), cure=_CURE)
        self._waiting = found.waiting


def _place(lacking: Waiting) -> dict[str, str | int]:
    """What a log line says of a transaction that lacks records."""
    return {
        "table": lacking.topic,
        "commit_lsn": format_lsn(lacking.commit_lsn),
        "records": lacking.here,
        "of": lacking.events,
    }
