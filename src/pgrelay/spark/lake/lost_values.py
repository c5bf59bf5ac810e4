"""Large (TOAST) values that no record has, because an update that changed the row's key did not send them.

Such a change is a create under the new key that leaves columns out, or an update, from a relay that writes no
record keys. The old key's changes are in another partition, so its row may be stale or gone, and can't supply
the values.
"""

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pgrelay.errors import RecordError
from pgrelay.lsn import format_lsn
from pgrelay.spark.lake.batch import Batch, has_lost_value
from pgrelay.spark.lake.latest import DELETED, keyed_rows, unless_unchanged
from pgrelay.spark.names import COMMIT_LSN, SEQ, constant, key_json, quoted, row_column
from pgrelay.spark.schemas.schema import TableSchema


def orphaned(schema: TableSchema) -> Expression:
    """Whether a change `has_lost_value`, or is a later update of the same row that leaves a column out too.

    The row that had the key before is another row, and must not supply the value.
    """
    if not schema.key:
        return has_lost_value(schema)
    key = [F.coalesce(f"after.{quoted(name)}", f"before.{quoted(name)}") for name in schema.key]
    partial = (F.col("op") == "u") & (F.size("unchanged") > 0)
    by_key = Window.partitionBy(*key).orderBy("commit_lsn", "seq")
    of_orphan = F.last(
        F.when(has_lost_value(schema) | ~partial, has_lost_value(schema)), ignorenulls=True
    ).over(by_key)
    return has_lost_value(schema) | (partial & F.coalesce(of_orphan, F.lit(False)))


def lost_value_reason() -> Expression:
    """What is wrong with a change that `has_lost_value`."""
    names = F.array_join("unchanged", ", ")
    return F.concat(F.lit("the row's key was changed by an update without the large value of "), names)


def missing_row_reason() -> Expression:
    """What is wrong with an update that leaves a column out while the target lacks the row."""
    names = F.array_join("unchanged", ", ")
    return F.concat(F.lit("the target lacks the row of an update without the large value of "), names)


def missing_key_reason(schema: TableSchema) -> str:
    """What is wrong with a change that lacks columns of the key."""
    return (
        f"the record lacks {', '.join(schema.key)}, the key in this schema: if the schema is outdated, read "
        "table_schemas again; if the table had another key when the record was written, fill the target "
        "again (pgrelay.spark.drop, and mirror with a new checkpoint), without maxOffsetsPerTrigger or with "
        "whole_transactions"
    )


def with_nulls(batch: Batch) -> Batch:
    """The batch with nulls for lost values; the column `lost` names the columns that have them."""
    none, lost = F.array().cast("array<string>"), has_lost_value(batch.schema)
    return batch.with_changes(
        batch.changes.withColumns(
            {
                "lost": F.when(lost, F.col("unchanged")).otherwise(none),
                "unchanged": F.when(lost, none).otherwise(F.col("unchanged")),
            }
        )
    )


def refuse_lost_values(batch: Batch, *, every: bool = False) -> None:
    """Raise RecordError if `with_nulls` leaves a row's last version, or with `every` any, without a value."""
    schema, rows = batch.schema, keyed_rows(batch, more=("lost",))
    names = [column.name for column in schema.columns if column.toastable]
    if every:
        bad = rows.where(F.size("lost") > 0)
    else:
        position = f"struct({COMMIT_LSN}, {SEQ})"
        last = [f"max_by({name}, {position}) AS {name}" for name in (DELETED, COMMIT_LSN)]
        gone = [
            f"CASE WHEN max_by(array_contains(lost, {constant(name)}), {unless_unchanged(name, position)})"
            f" THEN {constant(name)} END"
            for name in names
        ]
        lost = f"array_compact(array({', '.join(gone)})) AS lost"
        keys = [quoted(row_column(name)) for name in schema.key]
        rows = rows.groupBy(*keys).agg(*map(F.expr, [*last, lost]))
        bad = rows.where(f"NOT {DELETED} AND size(lost) > 0")
    row = bad.select(key_json(schema.key).alias("key"), COMMIT_LSN, "lost").first()
    if row is None:
        return
    raise RecordError(
        f"{schema.topic} LSN {format_lsn(row[COMMIT_LSN])}: the key of the row {row['key']} was changed, and "
        f"the large value of {', '.join(row['lost'])} was not sent: ALTER TABLE "
        f"{schema.schema}.{schema.table} REPLICA IDENTITY FULL, and for changes written before that pass "
        "on_missing='null', or corrupt_to"
    )
