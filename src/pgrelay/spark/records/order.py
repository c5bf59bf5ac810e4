"""The order of changes, `(commit_lsn, seq)`, as conditions on these two columns."""

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from pgrelay.spark.names import COMMIT_LSN, SEQ
from pgrelay.spark.schemas.schema import Position


def before(position: Position) -> Expression:
    """Whether a change comes before a position; null where it has none of its own."""
    lsn, seq = position
    return (F.col("commit_lsn") < lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") < seq))


def after(position: Position) -> Expression:
    """Whether a change comes after a position; null where it has none of its own."""
    lsn, seq = position
    return (F.col("commit_lsn") > lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") > seq))


def older(position: Position, row: str = "") -> str:
    """Whether the last change of a target's row comes before a position, in SQL; `row` is such as `t.`."""
    lsn, seq = position
    return f"({row}{COMMIT_LSN} < {lsn} OR {row}{COMMIT_LSN} = {lsn} AND {row}{SEQ} < {seq})"


def emptying(truncated: Position | None) -> tuple[str, str]:
    """The clauses of a MERGE into `t` for a truncate, if any: behind its ON, and after all other clauses.

    The rows that the truncate found match nothing, and are deleted by the same commit.
    """
    if truncated is None:
        return "", ""
    gone = older(truncated, "t.")
    return f" AND NOT {gone}", f" WHEN NOT MATCHED BY SOURCE AND {gone} THEN DELETE"
