"""Writing a batch into a target: a MERGE by key, in which the newer change wins."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pgrelay.errors import RecordError
from pgrelay.spark.failures import wrap_raised_error
from pgrelay.spark.lake.batch import Batch
from pgrelay.spark.lake.latest import DELETED, MISSING
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.names import (
    COMMIT_LSN,
    SEQ,
    as_row_columns,
    columns_and_values,
    constant,
    key_json,
    quoted,
    row_column,
)
from pgrelay.spark.records.order import older, truncate_clauses
from pgrelay.spark.schemas.schema import Position, TableSchema

# The text that the merge fails with; the LSN follows it.
_LACKS: Final = "pgrelay: no row to complete at "

# A row that somebody else wrote may have no position.
_NEWER: Final = (
    f"(s.{COMMIT_LSN} > t.{COMMIT_LSN} OR s.{COMMIT_LSN} = t.{COMMIT_LSN} AND s.{SEQ} > t.{SEQ}"
    f" OR t.{COMMIT_LSN} IS NULL OR t.{SEQ} IS NULL)"
)


class MissingRow(RecordError):
    """A change needs a row of the target that is not there: nothing was written."""


def merge_rows(target: LakeTable, rows: DataFrame, batch: Batch, *, strict: bool = False) -> None:
    """Merge `latest_rows` of a batch into the target.

    `strict`: raises MissingRow if a row leaves columns as the target has them, and it has no such row; the
    merge itself checks, as it looks up every row. If the batch has a truncate, all rows come after it, and
    the target's older rows are deleted.
    """
    schema = batch.schema
    toastable = {c.name for c in schema.columns if c.toastable and batch.has_unchanged}
    keys = " AND ".join(f"t.{quoted(key)} = {_source(key)}" for key in schema.key)
    updates = [
        f"t.{quoted(name)} = {_kept(name) if name in toastable else _source(name)}"
        for name in schema.row_type.names
        if name not in schema.key
    ]
    updates += [f"t.{name} = s.{name}" for name in (COMMIT_LSN, SEQ)]
    columns, values = columns_and_values(schema.row_type.names)
    # It fails in a value, which is computed only for a row to insert; Delta evaluates conditions earlier. All
    # columns are named: Iceberg refuses an INSERT without one that somebody has made NOT NULL.
    fails = f"CAST(raise_error(concat({constant(_LACKS)}, s.{COMMIT_LSN})) AS BIGINT)"
    lacks = f"WHEN NOT MATCHED AND NOT s.{DELETED} AND size(s.{MISSING}) > 0 THEN INSERT ({columns})"
    _, refusing = columns_and_values(schema.row_type.names, fails)
    on_clause, delete_clause = truncate_clauses(batch.truncated)
    lacking = f"an update leaves out a large value, and {target.name} has no such row"
    with wrap_raised_error(_LACKS, lambda lsn: MissingRow(f"{schema.topic} LSN {lsn}: {lacking}")):
        target.run(
            f"MERGE INTO {target.name} t USING {{rows}} s ON {keys}{on_clause}"
            f" WHEN MATCHED AND {_NEWER} AND s.{DELETED} THEN DELETE"
            f" WHEN MATCHED AND {_NEWER} THEN UPDATE SET {', '.join(updates)}"
            f" {f'{lacks} VALUES ({refusing})' if strict and batch.has_unchanged else ''}"
            f" WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({columns}) VALUES ({values}){delete_clause}",
            rows=rows,
        )


def append_rows(target: LakeTable, rows: DataFrame, schema: TableSchema) -> None:
    """Append `latest_rows` to an empty target."""
    columns = [f"{quoted(row_column(name))} AS {quoted(name)}" for name in schema.row_type.names]
    live = rows.where(f"NOT {DELETED}")
    target.insert_if_absent(live.selectExpr(*columns, COMMIT_LSN, SEQ), schema.key)


def kept_rows(target: LakeTable, batch: Batch) -> DataFrame:
    """The target's rows that the batch's truncate, if it has one, does not remove."""
    rows = target.rows()
    return rows if batch.truncated is None else rows.where(f"NOT {older(batch.truncated)}")


def delete_older(target: LakeTable, truncated: Position) -> None:
    """Delete what a truncate removed: the rows whose last change came before it."""
    target.run(f"DELETE FROM {target.name} WHERE {older(truncated)}")


def missing_rows(target: LakeTable, rows: DataFrame, batch: Batch) -> DataFrame:
    """Those of `latest_rows` that lack a column while the target has no row to take its value from."""
    lacking = rows.where((F.size(MISSING) > 0) & ~F.col(DELETED))
    present = kept_rows(target, batch).selectExpr(*as_row_columns(batch.schema.key))
    return lacking.join(present, on=[row_column(name) for name in batch.schema.key], how="left_anti")


def refuse_missing(target: LakeTable, missing: DataFrame, schema: TableSchema) -> None:
    """Raise RecordError if there are `missing_rows`."""
    first = missing.select(key_json(schema.key).alias("key"), MISSING).first()
    if first is None:
        return
    raise RecordError(
        f"{schema.topic}: an update of the row {first['key']} leaves out the large value of "
        f"{', '.join(first[MISSING])}, and {target.name} has no such row: start the mirror at the topic's "
        "beginning, or pass on_missing='null', or corrupt_to"
    )


def _kept(name: str) -> str:
    is_missing = f"array_contains(s.{MISSING}, {constant(name)})"
    return f"CASE WHEN {is_missing} THEN t.{quoted(name)} ELSE {_source(name)} END"


def _source(name: str) -> str:
    return f"s.{quoted(row_column(name))}"
