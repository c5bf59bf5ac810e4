"""The order of changes, `(commit_lsn, seq)`, as conditions on these two columns."""

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from pgrelay.spark.names import COMMIT_LSN, SEQ
from pgrelay.spark.schema import Position


def before(position: Position) -> Expression:
    """Whether a change comes before a position; null where it has none of its own."""
    lsn, seq = position
    return (F.col("commit_lsn") < lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") < seq))


def after(position: Position) -> Expression:
    """Whether a change comes after a position; null where it has none of its own."""
    lsn, seq = position
    return (F.col("commit_lsn") > lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") > seq))


def older(position: Position) -> str:
    """Whether the last change of a target's row comes before a position, in SQL."""
    lsn, seq = position
    return f"({COMMIT_LSN} < {lsn} OR {COMMIT_LSN} = {lsn} AND {SEQ} < {seq})"
