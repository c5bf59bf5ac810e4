"""A batch's changes of one table, and what has to be known about them before they are applied."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pgrelay.spark.lake.applied_positions import AppliedPositions
from pgrelay.spark.names import quoted
from pgrelay.spark.records.change_columns import key_value
from pgrelay.spark.schemas.schema import Position, TableSchema


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one table, as `read_changes` gives them with that schema, and facts about them all.

    applied_after           what is applied of these partitions once the batch is
    has_unchanged           a change leaves out a large value that stays as it was
    has_key_updates         `is_key_update` holds for a change
    has_lost_values         `has_lost_value` holds for a change, so `has_unchanged` does too
    has_updates_or_deletes  some change is an update or a delete
    first_corrupt           partition, offset and reason of the first record that can't be read exactly
    first_without_key       partition, offset and op of the first change that `lacks_key`
    foreign_topic           a topic other than the schema's that has records here
    """

    changes: DataFrame
    schema: TableSchema
    applied_after: AppliedPositions
    lowest_lsn: int | None = None
    has_unchanged: bool = False
    has_key_updates: bool = False
    has_lost_values: bool = False
    has_updates_or_deletes: bool = False
    first_corrupt: tuple[int, int, str] | None = None
    first_without_key: tuple[int, int, str] | None = None
    foreign_topic: str | None = None

    @property
    def has_changes(self) -> bool:
        """Whether it has changes that can be read, and so have a position."""
        return bool(self.applied_after.by_partition)

    @property
    def truncated(self) -> Position | None:
        """The position of the last truncate."""
        return self.applied_after.truncated

    @property
    def ends_with_truncate(self) -> bool:
        """Whether the last change is a truncate."""
        return self.has_changes and max(self.applied_after.by_partition.values()) == self.truncated

    def where(self, condition: Expression | str) -> "Batch":
        """The batch with only those changes; the facts stay."""
        return self.with_changes(self.changes.where(condition))

    def with_changes(self, changes: DataFrame) -> "Batch":
        """The batch with these changes in place of its own; the facts stay."""
        return replace(self, changes=changes)


def is_key_update(schema: TableSchema) -> Expression:
    """Whether a change is an update of a row's key: a relay that writes no record keys does not split it."""
    differs = " OR ".join(f"NOT before.{quoted(k)} <=> after.{quoted(k)}" for k in schema.key)
    return F.expr(f"op = 'u' AND before IS NOT NULL AND ({differs or 'false'})")


def lacks_key(schema: TableSchema) -> Expression:
    """Whether a change lacks columns of the key, because the table had another key when it was written."""
    missing = " OR ".join(f"{key_value(k)} IS NULL" for k in schema.key)
    return F.expr(f"op != 't' AND ({missing or 'false'})")


def has_lost_value(schema: TableSchema) -> Expression:
    """Whether a change creates the row of a key, and leaves a large value out."""
    return (F.col("op").isin("c", "r") | is_key_update(schema)) & (F.size("unchanged") > 0)


def summarize(changes: DataFrame, schema: TableSchema) -> Batch:
    """Gather the facts about all changes in one pass; of bad records only the first leave Spark."""
    position = F.struct("commit_lsn", "seq")
    sound = F.col("corrupt").isNull()
    found = (
        changes.groupBy("topic", "partition")
        .agg(
            F.max(F.when(sound, position)).alias("highest"),
            F.min(F.when(sound, F.col("commit_lsn"))).alias("lowest"),
            F.max(F.when(sound & (F.col("op") == "t"), position)).alias("truncated"),
            F.max(F.size("unchanged") > 0).alias("has_unchanged"),
            F.max(sound & is_key_update(schema)).alias("has_key_updates"),
            F.max(sound & has_lost_value(schema)).alias("has_lost_values"),
            F.max(sound & F.col("op").isin("u", "d")).alias("has_updates_or_deletes"),
            F.min(F.when(~sound, F.struct("offset", "corrupt"))).alias("corrupt"),
            F.min(F.when(sound & lacks_key(schema), F.struct("offset", "op"))).alias("without_key"),
        )
        .collect()
    )
    flags = ("has_unchanged", "has_key_updates", "has_lost_values", "has_updates_or_deletes")
    return Batch(
        changes,
        schema,
        _applied_after(schema.topic, found),
        lowest_lsn=min((row["lowest"] for row in found if row["lowest"] is not None), default=None),
        **{flag: any(row[flag] for row in found) for flag in flags},
        first_corrupt=_first(found, "corrupt"),
        first_without_key=_first(found, "without_key"),
        foreign_topic=next((row["topic"] for row in found if row["topic"] != schema.topic), None),
    )


def _applied_after(topic: str, found: Iterable[Row]) -> AppliedPositions:
    applied = AppliedPositions(topic)
    for row in found:
        if row["highest"] is not None:
            applied.advance(row["partition"], tuple(row["highest"]))
        if row["truncated"] is not None:
            applied.truncate(tuple(row["truncated"]))
    return applied


def _first(found: Iterable[Row], bad: str) -> Any:
    return next(((row["partition"], *row[bad]) for row in found if row[bad] is not None), None)
