"""The order of changes, `(commit_lsn, seq)`, as conditions on these two columns."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from pgrelay.spark.names import COMMIT_LSN, SEQ
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import Position, TableSchema


def before(position: Position) -> Expression:
    """Whether a change comes before a position; null if the change has none."""
    lsn, seq = position
    return (F.col("commit_lsn") < lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") < seq))


def after(position: Position) -> Expression:
    """Whether a change comes after a position; null if the change has none."""
    lsn, seq = position
    return (F.col("commit_lsn") > lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") > seq))


def by_version(
    lineage: Sequence[tuple[Position, Column]], schema: TableSchema, read: Callable[[Column], Expression]
) -> Expression:
    """The result of `read` for the column as of the change's position; null before it was added."""
    position, column = lineage[-1]
    value = read(column)
    if len(lineage) == 1 and position == schema.versions[0].position:
        return value
    # Rows older than every known version are read by the oldest one.
    first = lineage[0][0]
    branches = F.when(before(first), None) if first > schema.versions[0].position else None
    for (_, was), (until, _) in pairwise(lineage):
        branches = (
            F.when(before(until), read(was)) if branches is None else branches.when(before(until), read(was))
        )
    return value if branches is None else branches.otherwise(value)


def older(position: Position, row: str = "") -> str:
    """In SQL, whether the last change of a target's row comes before a position. `row`: a prefix, `t.`."""
    lsn, seq = position
    return f"({row}{COMMIT_LSN} < {lsn} OR {row}{COMMIT_LSN} = {lsn} AND {row}{SEQ} < {seq})"


def emptying(truncated: Position | None) -> tuple[str, str]:
    """Two clauses of a MERGE into `t` for a truncate, if any: for the end of its ON, and after all others.

    The rows that the truncate removed match nothing, and the same commit deletes them.
    """
    if truncated is None:
        return "", ""
    gone = older(truncated, "t.")
    return f" AND NOT {gone}", f" WHEN NOT MATCHED BY SOURCE AND {gone} THEN DELETE"
