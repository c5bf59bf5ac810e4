"""Mirrors that show whole transactions only, up to one commit LSN that they record.

Spark cuts micro-batches anywhere. What belongs to a transaction of which something is still to come waits in
a table of its own, on disk, so that a transaction may be larger than memory; the rest is applied as ever.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from pgrelay.encode.topics import shorten
from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.batches import Batches, Reading, Writing
from pgrelay.spark.failures import told_of
from pgrelay.spark.lake import LakeTable, Using, lake_table
from pgrelay.spark.schema import TableSchema
from pgrelay.spark.schema_topic import SchemaTopic
from pgrelay.spark.transactions import complete_until, ends, with_positions

# A target's property: the table that tells up to which commit its mirror is whole.
_MIRROR: Final = "pgrelay.mirror"
# And of the mirror's own tables: the relay's prefix.
_PREFIX: Final = "pgrelay.prefix"

_HELD: Final = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("commit_lsn", LongType())
    .add("seq", LongType())
)

_POSITION: Final = (
    StructType().add("target", StringType()).add("version", LongType()).add("commit_lsn", LongType())
)


@dataclass(frozen=True, slots=True)
class MirrorPosition:
    """The lake is exactly Postgres as of `commit_lsn`: every transaction up to it, whole, and nothing later.

    `versions`: of each target, the version that this is true of, for `VERSION AS OF`; the tables' last ones,
    unless the mirror is at its next batch. `str()` writes the LSN as Postgres does.
    """

    commit_lsn: int
    versions: dict[str, int]

    def __str__(self) -> str:
        return format_lsn(self.commit_lsn)


def mirror_position(spark: SparkSession, target: str, *, using: Using = "delta") -> MirrorPosition | None:
    """Where the mirror of whole transactions stands that `target` is one of; None before its first batch.

    Raises SetupError where the target is no part of such a mirror.
    """
    table = lake_table(spark, target, using)
    named = table.properties().get(_MIRROR) if table.exists() else None
    if named is None:
        raise SetupError(f"{target} is no target of a mirror(..., whole_transactions=True)")
    return _read_position(LakeTable(spark, named, using))


class WholeTransactions:
    """The micro-batches of a query that reads the transaction topic too."""

    def __init__(self, prefix: str, schemas: SchemaTopic, reading: Reading, writing: Writing) -> None:
        self.topic = shorten(f"{prefix}.transaction")
        self._prefix = prefix
        self._batches = Batches(schemas, reading, writing)
        self._reading = reading
        self._writing = writing

    def apply(self, batch: DataFrame, number: int) -> None:
        """Apply what is whole, and hold the rest back; a batch may come again."""
        with told_of(f"whole transactions by {self.topic}"):
            self._apply(batch)

    def _apply(self, batch: DataFrame) -> None:
        spark = batch.sparkSession
        schemas = self._batches.schemas(spark)
        position = self._beside(spark, "position")
        known = _read_position(position)
        since = 0 if known is None else known.commit_lsn
        records = batch.where(F.col("value").isNotNull())
        new = with_positions(records, self._reading.registry, self.topic).persist()
        pending = self._with_held(new).persist()
        try:
            tables = {f"{schema.schema}.{schema.table}": topic for topic, schema in schemas.items()}
            boundaries = ends(pending.where(F.col("topic") == self.topic), self._reading.registry)
            until = complete_until(pending, boundaries, tables, since)
            if known is None and until == since:
                self._refuse_without_ends(pending)
            self._apply_until(pending, until, schemas)
            if until > since or known is None:
                self._remember(position, until, schemas)
            self._hold(new, until)
        finally:
            pending.unpersist()
            new.unpersist()

    def _apply_until(self, pending: DataFrame, until: int, schemas: dict[str, TableSchema]) -> None:
        # What has no position can't be read: let it be told of at once.
        due = pending.where(F.coalesce(F.col("commit_lsn") <= until, F.lit(True)))
        self._batches.each_table(
            lambda topic: self._batches.apply_table(due.where(F.col("topic") == topic), topic, schemas)
        )

    def _refuse_without_ends(self, pending: DataFrame) -> None:
        """Raise SetupError where the relay writes no transaction topic: all would be held back for ever."""
        outside = F.col("value").cast("string").endswith('"transaction":null}')
        first = pending.where(outside).select("topic", "partition", "offset").first()
        if first is not None:
            raise SetupError(
                f"{first['topic']} partition {first['partition']} offset {first['offset']} belongs to no "
                "transaction: whole ones need records.transaction_topic: true in the relay's configuration"
            )

    def _with_held(self, new: DataFrame) -> DataFrame:
        """The records that wait, too. Some are there twice where a batch comes again, which does no harm."""
        held = self._beside(new.sparkSession, "held")
        return new.unionByName(held.rows()) if held.exists() else new

    def _hold(self, new: DataFrame, until: int) -> None:
        """Keep what is later than `until`, of this batch and of those before: rows, and ends without rows."""
        held = self._beside(new.sparkSession, "held")
        later = new.where(F.col("commit_lsn") > until)
        if held.exists():
            held.run(f"DELETE FROM {held.name} WHERE commit_lsn <= {until}")
        if later.isEmpty():
            return
        held.create(_HELD, {_PREFIX: self._prefix})
        held.run(
            f"MERGE INTO {held.name} t USING {{later}} s"
            " ON t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset"
            " WHEN NOT MATCHED THEN INSERT *",
            later=later,
        )

    def _remember(self, position: LakeTable, until: int, schemas: dict[str, TableSchema]) -> None:
        """Record the commit and the version that each target has at it."""
        targets = {
            name: self._batches.target(position.spark, schemas[topic]).table
            for topic, name in self._writing.tables.items()
            if topic in schemas
        }
        for table in targets.values():
            if _MIRROR not in table.properties():
                table.set_properties({_MIRROR: position.name})
        position.create(_POSITION, {_PREFIX: self._prefix})
        rows = [f"('{name}', {table.version()}L, {until}L)" for name, table in targets.items()]
        if rows:
            position.spark.sql(f"INSERT OVERWRITE {position.name} VALUES {', '.join(rows)}")

    def _beside(self, spark: SparkSession, what: str) -> LakeTable:
        """A table of the mirror's own, in the namespace of its first target."""
        first = lake_table(spark, next(iter(self._writing.tables.values())), self._writing.using)
        namespace = first.name.rpartition("`.`")[0]
        own = f"`{self._prefix}__{what}`"
        return LakeTable(spark, f"{namespace}`.{own}" if namespace else own, first.using)


def _read_position(position: LakeTable) -> MirrorPosition | None:
    rows = position.rows().collect() if position.exists() else []
    if not rows:
        return None
    return MirrorPosition(rows[0]["commit_lsn"], {row["target"]: row["version"] for row in rows})
