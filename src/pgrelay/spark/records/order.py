"""The order of changes, `(commit_lsn, seq)`, as conditions in SQL."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from pgrelay.spark.names import COMMIT_LSN, SEQ
from pgrelay.spark.records.sql import case
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import Position, TableSchema


def before(position: Position) -> str:
    """Whether a change comes before a position; null if the change has none."""
    return _compared("<", position, "commit_lsn", "seq")


def after(position: Position) -> str:
    """Whether a change comes after a position; null if the change has none."""
    return _compared(">", position, "commit_lsn", "seq")


def older(position: Position, row: str = "") -> str:
    """Whether the last change of a target's row comes before a position. `row`: a prefix, `t.`.

    A row without a position, which somebody else wrote, is older than all.
    """
    lsn, seq = f"{row}{COMMIT_LSN}", f"{row}{SEQ}"
    return f"({_compared('<', position, lsn, seq)} OR {lsn} IS NULL OR {seq} IS NULL)"


def by_version(
    lineage: Sequence[tuple[Position, Column]], schema: TableSchema, read: Callable[[Column], str]
) -> str:
    """The result of `read` for the column as of the change's position; null before it was added."""
    added, _ = lineage[0]
    # Rows older than every known version are read by the oldest one.
    branches = [(before(added), "NULL")] if added > schema.versions[0].position else []
    branches += [(before(until), read(was)) for (_, was), (until, _) in pairwise(lineage)]
    return case(branches, read(lineage[-1][1]))


def truncate_clauses(truncated: Position | None) -> tuple[str, str]:
    """Two clauses of a MERGE into `t` for a truncate, if any: one to end its ON with, one after all others.

    With them the rows that the truncate removed match nothing, and the same commit deletes them.
    """
    if truncated is None:
        return "", ""
    gone = older(truncated, "t.")
    return f" AND NOT {gone}", f" WHEN NOT MATCHED BY SOURCE AND {gone} THEN DELETE"


def _compared(operator: str, position: Position, lsn: str, seq: str) -> str:
    at, nth = position
    return f"({lsn} {operator} {at} OR {lsn} = {at} AND {seq} {operator} {nth})"
