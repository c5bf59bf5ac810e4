"""Writing a batch into a target: MERGE by key, in which the newer change wins."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.errors import RecordError
from pgrelay.spark.lake import LakeTable
from pgrelay.spark.latest import DELETED, MISSING
from pgrelay.spark.names import COMMIT_LSN, SEQ, carried, columns_and_values, literal, quoted, told_key
from pgrelay.spark.order import older
from pgrelay.spark.schema import Position, TableSchema

_NEWER = f"(s.{COMMIT_LSN} > t.{COMMIT_LSN} OR s.{COMMIT_LSN} = t.{COMMIT_LSN} AND s.{SEQ} > t.{SEQ})"


def merge_rows(target: LakeTable, rows: DataFrame, schema: TableSchema, *, missing: bool) -> None:
    """Merge `latest_rows` into the target. `missing`: some rows leave columns to what the target has."""
    toastable = {c.name for c in schema.columns if c.toastable} if missing else set[str]()
    keys = " AND ".join(f"t.{quoted(key)} = {_source(key)}" for key in schema.key)
    updates = [
        f"t.{quoted(name)} = {_kept(name) if name in toastable else _source(name)}"
        for name in schema.row_type.names
        if name not in schema.key
    ]
    updates += [f"t.{name} = s.{name}" for name in (COMMIT_LSN, SEQ)]
    columns, values = columns_and_values(schema.row_type.names)
    target.run(
        f"MERGE INTO {target.name} t USING {{rows}} s ON {keys}"
        f" WHEN MATCHED AND {_NEWER} AND s.{DELETED} THEN DELETE"
        f" WHEN MATCHED AND {_NEWER} THEN UPDATE SET {', '.join(updates)}"
        f" WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({columns}) VALUES ({values})",
        rows=rows,
    )


def append_rows(target: LakeTable, rows: DataFrame, schema: TableSchema) -> None:
    """Append `latest_rows` to an empty target."""
    columns = [F.col(quoted(carried(name))).alias(name) for name in schema.row_type.names]
    live = rows.where(~F.col(DELETED))
    target.append(live.select(*columns, COMMIT_LSN, SEQ), schema.key)


def delete_older(target: LakeTable, truncated: Position) -> None:
    """Delete what a truncate found: the rows whose last change came before it."""
    target.run(f"DELETE FROM {target.name} WHERE {older(truncated)}")


def missing_rows(target: LakeTable, rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Of `latest_rows`, those that lack a column, and the target has no row to take its value from."""
    lacking = rows.where((F.size(MISSING) > 0) & ~F.col(DELETED))
    there = target.rows().select(*(F.col(quoted(name)).alias(carried(name)) for name in schema.key))
    return lacking.join(there, on=[carried(name) for name in schema.key], how="left_anti")


def refuse_missing(target: LakeTable, missing: DataFrame, schema: TableSchema) -> None:
    """Raise RecordError where there are `missing_rows`."""
    first = missing.first()
    if first is None:
        return
    key = told_key(first, schema.key)
    raise RecordError(
        f"{schema.topic}: an update of the row {key} leaves out the large value of "
        f"{', '.join(first[MISSING])}, and {target.name} has no such row: start the mirror at the topic's "
        "beginning, or pass on_missing='null', or corrupt_to"
    )


def _kept(name: str) -> str:
    is_missing = f"array_contains(s.{MISSING}, {literal(name)})"
    return f"CASE WHEN {is_missing} THEN t.{quoted(name)} ELSE {_source(name)} END"


def _source(name: str) -> str:
    return f"s.{quoted(carried(name))}"
