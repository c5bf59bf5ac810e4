"""A batch of changes reduced to one row for each key, its last change.

Shapes: the table's columns under their `carried` names, `__commit_lsn`, `__seq`, `__deleted`, and
`__missing`: the columns whose value no change in the batch carries, so that the target's value stays.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.spark.names import COMMIT_LSN, SEQ, carried, quoted
from pgrelay.spark.schemas.schema import TableSchema

DELETED = "__deleted"
MISSING = "__missing"


def latest_rows(changes: DataFrame, schema: TableSchema, *, unchanged: bool, moved: bool) -> DataFrame:
    """The last change of each key. `changes` has no truncates.

    `unchanged`: some updates lack a column. `moved`: some updates change the key, and so delete the old one.
    """
    rows = keyed_rows(changes, schema, moved=moved)
    keys = [quoted(carried(name)) for name in schema.key]
    position = F.struct(COMMIT_LSN, SEQ)
    large = [c.name for c in schema.columns if c.toastable and unchanged]
    whole = [carried(c.name) for c in schema.columns if not c.key and c.name not in large]
    last = F.max_by(F.struct(COMMIT_LSN, SEQ, DELETED, *map(quoted, whole)), position).alias("__last")
    # The value of a column that may be left out is that of the last change that carries it.
    carries = {name: F.when(~F.array_contains("unchanged", name), position) for name in large}
    values = [F.max_by(quoted(carried(name)), has).alias(carried(name)) for name, has in carries.items()]
    absent = [
        F.when(F.max(has).isNull(), F.lit(name)).alias(f"__absent_{number}")
        for number, (name, has) in enumerate(carries.items())
    ]
    grouped = rows.groupBy(*keys).agg(last, *values, *absent)
    missing = F.array_compact(F.array(*(f"__absent_{number}" for number in range(len(absent)))))
    no_names = F.array().cast("array<string>")
    return grouped.select(
        *(_column(name, name in whole) for name in map(carried, schema.row_type.names)),
        *(F.col(f"__last.{name}") for name in (COMMIT_LSN, SEQ, DELETED)),
        (missing if absent else no_names).alias(MISSING),
    )


def keyed_rows(
    changes: DataFrame, schema: TableSchema, *, moved: bool, more: Sequence[str] = ()
) -> DataFrame:
    """The changes as rows of the table; that of a delete has only its key.

    Shapes: the table's columns under their `carried` names, `__commit_lsn`, `__seq`, `__deleted`, and the
    changes' own columns `unchanged`, `ts` and `more`.
    """
    rows = _by_key(changes, schema, more)
    return rows.unionByName(_old_keys(changes, schema, more)) if moved else rows


def key_moved(schema: TableSchema) -> Expression:
    """Whether a change is an update of a row's key: a relay that writes no record keys does not split it."""
    moved = [~F.col(f"before.{quoted(k)}").eqNullSafe(F.col(f"after.{quoted(k)}")) for k in schema.key]
    is_update = (F.col("op") == "u") & F.col("before").isNotNull()
    return is_update & reduce(lambda one, other: one | other, moved, F.lit(False))


def key_untold(schema: TableSchema) -> Expression:
    """Whether a change lacks columns of the row's key, because the key was another when it was written."""
    deleted = F.col("op") == "d"
    untold = [
        F.when(deleted, F.col(f"before.{quoted(k)}")).otherwise(F.col(f"after.{quoted(k)}")).isNull()
        for k in schema.key
    ]
    return (F.col("op") != "t") & reduce(lambda one, other: one | other, untold, F.lit(False))


def old_keys_deleted(moves: DataFrame, schema: TableSchema) -> DataFrame:
    """Updates of rows' keys as deletes of the old keys, which leave no column out."""
    none = F.array().cast("array<string>")
    named = [name for name in ("unchanged", "lost") if name in moves.columns]
    return moves.withColumns(
        {"op": F.lit("d"), "after": F.lit(None).cast(schema.row_type), **dict.fromkeys(named, none)}
    )


def _by_key(changes: DataFrame, schema: TableSchema, more: Sequence[str]) -> DataFrame:
    deleted = F.col("op") == "d"
    columns = [
        (
            F.when(deleted, F.col(f"before.{quoted(c.name)}")).otherwise(F.col(f"after.{quoted(c.name)}"))
            if c.key
            else F.col(f"after.{quoted(c.name)}")
        ).alias(carried(c.name))
        for c in schema.columns
    ]
    return changes.select(
        *columns,
        F.col("commit_lsn").alias(COMMIT_LSN),
        F.col("seq").alias(SEQ),
        deleted.alias(DELETED),
        "unchanged",
        "ts",
        *more,
    )


def _old_keys(changes: DataFrame, schema: TableSchema, more: Sequence[str]) -> DataFrame:
    return _by_key(old_keys_deleted(changes.where(key_moved(schema)), schema), schema, more)


def _column(name: str, in_last: bool) -> Expression:
    return F.col(f"__last.{quoted(name)}").alias(name) if in_last else F.col(quoted(name))
