"""Tables without a key: appended to, or under REPLICA IDENTITY FULL kept as a multiset of whole rows.

What is done for each column is written in SQL: a `Column` takes dozens of calls into Java.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType
from pyspark.sql.window import Window

from pgrelay.errors import RecordError
from pgrelay.spark.failures import wrap_raised_error
from pgrelay.spark.lake.batch import Batch
from pgrelay.spark.lake.merge import MissingRow, kept_rows
from pgrelay.spark.lake.rejects import RECORD_COLUMNS
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark.names import COMMIT_LSN, SEQ, as_row_columns, columns_and_values, quoted, row_column
from pgrelay.spark.records.order import truncate_clauses
from pgrelay.spark.schemas.schema import TableSchema

# The text that a plan fails with; the LSN follows it.
_LACKS: Final = "pgrelay: no row to delete at "

_POSITION: Final = (f"commit_lsn AS {COMMIT_LSN}", f"seq AS {SEQ}")

_SAME_CHANGE: Final = f"t.{COMMIT_LSN} = s.{COMMIT_LSN} AND t.{SEQ} = s.{SEQ}"


def append_once(target: LakeTable, batch: Batch) -> None:
    """Append every row, each change once. Raises RecordError on updates and deletes.

    If the batch has a truncate, all changes come after it, and the target's older rows are deleted.
    """
    changes, schema = batch.changes, batch.schema
    other = changes.where(~F.col("op").isin("c", "r")).select("partition", "offset", "op").first()
    if other is not None:
        raise RecordError(
            f"{schema.topic} partition {other['partition']} offset {other['offset']}: op {other['op']!r} of "
            f"a table without a key: ALTER TABLE {schema.schema}.{schema.table} REPLICA IDENTITY FULL, or "
            "if it was FULL already, read table_schemas again"
        )
    columns = [f"after.{quoted(name)} AS {quoted(name)}" for name in schema.row_type.names]
    rows = changes.selectExpr(*columns, *_POSITION)
    _, delete_clause = truncate_clauses(batch.truncated)
    once = rows.dropDuplicates([COMMIT_LSN, SEQ])
    target.insert_if_absent(once, [COMMIT_LSN, SEQ], min_lsn=batch.lowest_lsn, delete_clause=delete_clause)


def multiset_changes(target: LakeTable, batch: Batch, *, strict: bool) -> DataFrame:
    """What to delete and insert: the table's `row_column` columns, `__commit_lsn`, `__seq` and `__deleted`.

    Rows with the same content are interchangeable, so only their number matters. Some of the rows that the
    batch deletes it has added itself; the target must have the rest. `strict`: the plan fails if the target
    has fewer; otherwise rows that it lacks are not deleted.
    """
    row_changes = _row_changes(batch)
    target_rows = _target_rows(target, batch)
    totals = _totals(row_changes)
    if not strict:  # none of the rows that the target lacks can be deleted
        totals = _with_shortfall(totals, target_rows).withColumn("__net", F.col("__net") + F.col("__lacks"))
    newest = Window.partitionBy("__content").orderBy(F.desc(COMMIT_LSN), F.desc(SEQ))
    added = row_changes.where(F.col("__change") == 1).withColumn("__rank", F.row_number().over(newest))
    inserts = added.join(totals, "__content").where(F.col("__rank") <= F.col("__net"))
    deletes = _deletes(target_rows, totals, strict)
    names = [*(quoted(row_column(name)) for name in batch.schema.row_type.names), COMMIT_LSN, SEQ]
    return inserts.selectExpr(*names, "false AS __deleted").unionByName(
        deletes.selectExpr(*names, "true AS __deleted")
    )


def missing_records(target: LakeTable, batch: Batch) -> DataFrame:
    """The updates and deletes of rows that the target has too few of, to be set aside."""
    lacking = _with_shortfall(_totals(_row_changes(batch)), _target_rows(target, batch)).where("__lacks > 0")
    old_rows = _old_rows(batch, RECORD_COLUMNS)
    records = old_rows.join(lacking.select("__content"), "__content", "left_semi").select(*RECORD_COLUMNS)
    return records.withColumn("corrupt", F.lit("the target has fewer such rows than were updated or deleted"))


def _row_changes(batch: Batch) -> DataFrame:
    """The rows that the batch adds and removes, with 1 and -1 in `__change`."""
    new_rows = _rows(batch.changes.where(F.col("op").isin("c", "r", "u")), "after", batch.schema)
    return (
        new_rows.withColumn("__change", F.lit(1))
        .unionByName(_old_rows(batch).withColumn("__change", F.lit(-1)))
        .dropDuplicates(["__content", COMMIT_LSN, SEQ, "__change"])
    )


def _old_rows(batch: Batch, more: Sequence[str] = ()) -> DataFrame:
    """The rows as they were before an update or delete."""
    return _rows(batch.changes.where(F.col("op").isin("u", "d")), "before", batch.schema, more)


def _totals(row_changes: DataFrame) -> DataFrame:
    """For each content, how many rows the batch adds on balance, and how many it `__needs` before it."""
    # An update deletes its old row before it adds the new one.
    so_far = Window.partitionBy("__content").orderBy(COMMIT_LSN, SEQ, "__change")
    lowest = F.min("__count").alias("__lowest")
    went_at = F.max(F.when(F.col("__change") == -1, F.col(COMMIT_LSN))).alias("__went")
    totals = (
        row_changes.withColumn("__count", F.sum("__change").over(so_far))
        .groupBy("__content")
        .agg(F.sum("__change").alias("__net"), lowest, went_at)
    )
    return totals.withColumn("__needs", F.greatest(-F.col("__lowest"), F.lit(0)))


def _with_shortfall(totals: DataFrame, target_rows: DataFrame) -> DataFrame:
    """The totals, with how many of the rows of `__needs` the target `__lacks`."""
    needed = totals.where(F.col("__needs") > 0).select("__content")
    counted = target_rows.join(needed, "__content", "left_semi").groupBy("__content")
    held = counted.agg(F.count("*").alias("__held"))
    lacks = F.greatest(F.col("__needs") - F.coalesce("__held", F.lit(0)), F.lit(0))
    return totals.join(held, "__content", "left").withColumn("__lacks", lacks)


def _deletes(target_rows: DataFrame, totals: DataFrame, strict: bool) -> DataFrame:
    """The target's oldest rows of each content, as many as the batch deletes on balance."""
    wanted = totals.where(F.col("__needs") > 0 if strict else F.col("__net") < 0)
    found = target_rows.join(wanted, "__content").withColumn("__found", F.lit(True))
    is_due = F.col("__rank") <= -F.col("__net")
    if strict:
        # One more row of each content, ranked after all that were found: its rank tells how many they are.
        end = wanted.withColumn("__found", F.lit(False))
        found = found.unionByName(end, allowMissingColumns=True)
        lacks = F.raise_error(F.concat(F.lit(_LACKS), F.col("__went"))).cast("boolean")
        too_few = F.col("__rank") <= F.col("__needs")
        is_due = F.when(F.col("__found"), is_due).otherwise(F.when(too_few, lacks).otherwise(False))
    oldest = Window.partitionBy("__content").orderBy(F.desc("__found"), COMMIT_LSN, SEQ)
    return found.withColumn("__rank", F.row_number().over(oldest)).where(is_due)


def apply_multiset(target: LakeTable, batch: Batch, *, strict: bool) -> None:
    """Delete and insert whole rows, as many of each content as the batch says.

    If the batch has a truncate, all changes come after it, and the target's older rows are deleted. With
    `strict`, raises MissingRow if the target lacks rows that are to be deleted.
    """
    topic = batch.schema.topic

    def refusal(lsn: str) -> MissingRow:
        return MissingRow(
            f"{topic} LSN {lsn}: {target.name} lacks the row that was deleted or updated: a column "
            "was added with a DEFAULT, which no record shows, the mirror began after the table's first rows, "
            f"somebody wrote the row there without {COMMIT_LSN} and {SEQ}, or another mirror writes there: "
            "start again with on_missing='null', and in one transaction TRUNCATE the table and insert all "
            "its rows from a copy; or pass corrupt_to"
        )

    with wrap_raised_error(_LACKS, refusal):
        _merge(target, multiset_changes(target, batch, strict=strict), batch)


def _merge(target: LakeTable, rows: DataFrame, batch: Batch) -> None:
    on_clause, delete_clause = truncate_clauses(batch.truncated)
    columns, values = columns_and_values(batch.schema.row_type.names)
    target.run(
        f"MERGE INTO {target.name} t USING {{rows}} s ON {_SAME_CHANGE}{on_clause}"
        " WHEN MATCHED AND s.__deleted THEN DELETE"
        f" WHEN NOT MATCHED AND NOT s.__deleted THEN INSERT ({columns}) VALUES ({values}){delete_clause}",
        rows=target.merge_source(rows),
    )


def _rows(changes: DataFrame, side: str, schema: TableSchema, more: Sequence[str] = ()) -> DataFrame:
    columns = as_row_columns(schema.row_type.names, f"{side}.")
    return _content(changes.selectExpr(*columns, *_POSITION, *map(quoted, more)), schema)


def _target_rows(target: LakeTable, batch: Batch) -> DataFrame:
    # A row without a position, which somebody else wrote, could not be told from the next such row.
    holding = kept_rows(target, batch).where(f"{COMMIT_LSN} IS NOT NULL AND {SEQ} IS NOT NULL")
    names = as_row_columns(batch.schema.row_type.names)
    return _content(holding.selectExpr(*names, COMMIT_LSN, SEQ), batch.schema)


def _content(rows: DataFrame, schema: TableSchema) -> DataFrame:
    """The rows with a column `__content`, which is equal for rows of the same content."""
    parts = [_comparable(quoted(row_column(field.name)), field.dataType) for field in schema.row_type]
    return rows.withColumn("__content", F.expr(f"struct({', '.join(parts)})"))


def _comparable(value: str, kind: DataType) -> str:
    if isinstance(kind, MapType):
        return f"array_sort(map_entries({value}))"
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, MapType):
        return f"transform({value}, each -> {_comparable('each', kind.elementType)})"
    return value
