"""Reduces a batch of changes to the last change of each key.

Shapes: the table's columns under their `row_column` names, `__commit_lsn`, `__seq`, `__deleted`, and
`__missing`: the columns whose value no change in the batch carries, so that the target's value stays.

What is repeated for each column is SQL: a `Column` takes dozens of calls into Java.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.spark.lake.batch import Batch, is_key_update
from pgrelay.spark.names import COMMIT_LSN, SEQ, constant, quoted, row_column
from pgrelay.spark.records.change_columns import key_value
from pgrelay.spark.schemas.schema import TableSchema

DELETED = "__deleted"
MISSING = "__missing"


def latest_rows(batch: Batch) -> DataFrame:
    """The last change of each key. The batch has no truncates."""
    schema = batch.schema
    keys = [quoted(row_column(name)) for name in schema.key]
    position = f"struct({COMMIT_LSN}, {SEQ})"
    large = [c.name for c in schema.columns if c.toastable and batch.has_unchanged]
    whole = [quoted(row_column(c.name)) for c in schema.columns if not c.key and c.name not in large]
    last = f"max_by(struct({', '.join([COMMIT_LSN, SEQ, DELETED, *whole])}), {position}) AS __last"
    # The value of a column that may be left out is that of the last change that carries it.
    carries = {name: unless_unchanged(name, position) for name in large}
    values = [
        f"max_by({quoted(row_column(name))}, {has}) AS {quoted(row_column(name))}"
        for name, has in carries.items()
    ]
    absent = [f"CASE WHEN max({has}) IS NULL THEN {constant(name)} END" for name, has in carries.items()]
    missing = f"array_compact(CAST(array({', '.join(absent)}) AS array<string>)) AS {MISSING}"
    grouped = keyed_rows(batch).groupBy(*keys).agg(*map(F.expr, [last, *values, missing]))
    return grouped.select("__last.*", *keys, *(quoted(row_column(name)) for name in large), MISSING)


def unless_unchanged(name: str, value: str) -> str:
    """SQL of a value, or of null for a change that leaves the column `name` out."""
    return f"CASE WHEN NOT array_contains(unchanged, {constant(name)}) THEN {value} END"


def keyed_rows(batch: Batch, more: Sequence[str] = ()) -> DataFrame:
    """The changes as rows of the table; a delete's row has only the key, and an update of a key is two rows.

    Shapes: the table's columns under their `row_column` names, `__commit_lsn`, `__seq`, `__deleted`, and the
    changes' own columns `unchanged`, `ts` and `more`.
    """
    rows = _by_key(batch.changes, batch.schema, more)
    if not batch.has_key_updates:
        return rows
    moves = batch.changes.where(is_key_update(batch.schema))
    return rows.unionByName(_by_key(old_key_deletes(moves, batch.schema), batch.schema, more))


def old_key_deletes(moves: DataFrame, schema: TableSchema) -> DataFrame:
    """Updates of keys as deletes of the old keys, which leave no column out."""
    none = F.array().cast("array<string>")
    named = [name for name in ("unchanged", "lost") if name in moves.columns]
    return moves.withColumns(
        {"op": F.lit("d"), "after": F.lit(None).cast(schema.row_type), **dict.fromkeys(named, none)}
    )


def _by_key(changes: DataFrame, schema: TableSchema, more: Sequence[str]) -> DataFrame:
    values = {c.name: key_value(c.name) if c.key else f"after.{quoted(c.name)}" for c in schema.columns}
    return changes.selectExpr(
        *(f"{value} AS {quoted(row_column(name))}" for name, value in values.items()),
        f"commit_lsn AS {COMMIT_LSN}",
        f"seq AS {SEQ}",
        f"op = 'd' AS {DELETED}",
        "unchanged",
        "ts",
        *map(quoted, more),
    )
