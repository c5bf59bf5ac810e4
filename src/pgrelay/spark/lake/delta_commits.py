"""The commits of a Delta table, from its log, and whether they revert it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pgrelay.spark.lake.tables import LakeTable

# Operations that leave nothing of what a table had. Some have `AS SELECT` after them.
_REPLACES: Final = ("CLONE", "REPLACE TABLE", "CREATE OR REPLACE TABLE")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit in the log; `restored` is the version that a RESTORE names."""

    version: int
    mark: str | None
    operation: str
    restored: int | None


def commits(table: LakeTable, since: int | None) -> list[Commit]:
    """The commits of a Delta table after the version `since`, by default all; newest first."""
    count = None if since is None else table.version() - since
    while count != 0:
        limit = "" if count is None else f" LIMIT {count}"
        history = table.spark.sql(f"DESCRIBE HISTORY {table.name}{limit}").selectExpr(
            "version",
            "userMetadata",
            "coalesce(operation, '')",  # a writer need not name it
            "try_cast(operationParameters['version'] AS int)",
        )
        found = [Commit(*row) for row in history.collect()]
        if since is None or count is None or not found or found[0].version - since <= count:
            return found
        count = found[0].version - since  # newer ones came meanwhile, and displaced the oldest
    return []


def any_reverts(later: Iterable[Commit], since: int) -> bool:
    """Whether commits after the version `since`, given newest first, took from the table what it had then."""
    at = None
    for commit in later:
        if at is not None and commit.version > at:
            continue  # a RESTORE has undone it
        if commit.operation.startswith(_REPLACES):
            return True
        if commit.operation == "RESTORE":
            # A RESTORE to a timestamp names no version.
            at = -1 if commit.restored is None else commit.restored
            if at < since:
                return True
    return False
