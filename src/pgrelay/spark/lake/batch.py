"""A batch's changes of one table, and what has to be known about them before they are applied."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pgrelay.spark.lake.applied import Applied
from pgrelay.spark.names import quoted
from pgrelay.spark.records.change_columns import key_value
from pgrelay.spark.schemas.schema import Position, TableSchema


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one table, as `read_changes` gives them with that schema, and facts about them all."""

    changes: DataFrame
    schema: TableSchema
    leads_to: Applied  # what is applied of these partitions once the batch is
    lowest: int | None = None  # commit LSN
    unchanged: bool = False  # a change leaves out a large value that stays
    moved: bool = False  # `key_moved` holds for a change
    lacking: bool = False  # `lacks` holds for a change: so `unchanged` does too
    replaced: bool = False  # there are updates or deletes
    corrupt: tuple[int, int, str] | None = None  # partition, offset, reason; of the first such record
    untold: tuple[int, int, str] | None = None  # partition, offset, op: `key_untold` holds for it; the first
    foreign: str | None = None  # another topic than the schema's

    @property
    def writes(self) -> bool:
        """Whether it has changes that can be read, and so have a position."""
        return bool(self.leads_to.by_partition)

    @property
    def truncated(self) -> Position | None:
        """The position of the last truncate."""
        return self.leads_to.truncated

    @property
    def ends_empty(self) -> bool:
        """Whether the last change is a truncate."""
        return self.writes and max(self.leads_to.by_partition.values()) == self.truncated

    def where(self, condition: Expression | str) -> "Batch":
        """The batch with those changes only; the facts stay."""
        return self.of(self.changes.where(condition))

    def of(self, changes: DataFrame) -> "Batch":
        """The batch with these changes in place of its own; the facts stay."""
        return replace(self, changes=changes)


def key_moved(schema: TableSchema) -> Expression:
    """Whether a change is an update of a row's key: a relay that writes no record keys does not split it."""
    moved = " OR ".join(f"NOT before.{quoted(k)} <=> after.{quoted(k)}" for k in schema.key)
    return F.expr(f"op = 'u' AND before IS NOT NULL AND ({moved or 'false'})")


def key_untold(schema: TableSchema) -> Expression:
    """Whether a change lacks columns of the row's key, because the key was another when it was written."""
    untold = " OR ".join(f"{key_value(k)} IS NULL" for k in schema.key)
    return F.expr(f"op != 't' AND ({untold or 'false'})")


def lacks(schema: TableSchema) -> Expression:
    """Whether a change creates the row of a key, and leaves a column out."""
    return (F.col("op").isin("c", "r") | key_moved(schema)) & (F.size("unchanged") > 0)


def summarize(changes: DataFrame, schema: TableSchema) -> Batch:
    """Look at all changes, in one pass; only the first bad records of each partition leave Spark."""
    position = F.struct("commit_lsn", "seq")
    sound = F.col("corrupt").isNull()
    found = (
        changes.groupBy("topic", "partition")
        .agg(
            F.max(F.when(sound, position)).alias("highest"),
            F.min(F.when(sound, F.col("commit_lsn"))).alias("lowest"),
            F.max(F.when(sound & (F.col("op") == "t"), position)).alias("truncated"),
            F.max(F.size("unchanged") > 0).alias("unchanged"),
            F.max(sound & key_moved(schema)).alias("moved"),
            F.max(sound & lacks(schema)).alias("lacking"),
            F.max(sound & F.col("op").isin("u", "d")).alias("replaced"),
            F.min(F.when(~sound, F.struct("offset", "corrupt"))).alias("corrupt"),
            F.min(F.when(sound & key_untold(schema), F.struct("offset", "op"))).alias("untold"),
        )
        .collect()
    )
    flags = ("unchanged", "moved", "lacking", "replaced")
    return Batch(
        changes,
        schema,
        _leading_to(schema.topic, found),
        lowest=min((row["lowest"] for row in found if row["lowest"] is not None), default=None),
        **{flag: any(row[flag] for row in found) for flag in flags},
        corrupt=_first(found, "corrupt"),
        untold=_first(found, "untold"),
        foreign=next((row["topic"] for row in found if row["topic"] != schema.topic), None),
    )


def _leading_to(topic: str, found: Iterable[Row]) -> Applied:
    leads_to = Applied(topic)
    for row in found:
        if row["highest"] is not None:
            leads_to.advance(row["partition"], tuple(row["highest"]))
        if row["truncated"] is not None:
            leads_to.truncate(tuple(row["truncated"]))
    return leads_to


def _first(found: Iterable[Row], bad: str) -> Any:
    return next(((row["partition"], *row[bad]) for row in found if row[bad] is not None), None)
