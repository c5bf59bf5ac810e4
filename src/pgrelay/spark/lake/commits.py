"""The commits of a target as its log tells them: which are ours, and whether what they wrote was undone."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from pgrelay.spark.lake.tables import LakeTable

# The session's settings that attach a text of ours to commits.
_MARK: Final = "pgrelay"
_MARKING: Final[dict[str, str]] = {
    "delta": "spark.databricks.delta.commitInfo.userMetadata",
    "iceberg": f"spark.sql.iceberg.snapshot-property.{_MARK}",
}
_ONE_MARK: Final = Lock()

# Delta's operations after which a table has nothing of what it had. Some have `AS SELECT` behind them.
_REPLACES: Final = ("CLONE", "REPLACE TABLE", "CREATE OR REPLACE TABLE")


@contextmanager
def marking(table: LakeTable, mark: str) -> Iterator[None]:
    """Marks the commits that are made in the block; a mark is part of its commit."""
    setting, conf = _MARKING[table.using], table.spark.conf
    with _ONE_MARK:  # the setting is the session's
        before = conf.get(setting, None)
        conf.set(setting, mark)
        try:
            yield
        finally:
            if before is None:
                conf.unset(setting)
            else:
                conf.set(setting, before)


def marks(table: LakeTable, since: int | None = None) -> tuple[list[str], bool]:
    """The marks of those commits after the version `since`, by default of all, that have one.

    And whether all commits since then are known: logs are cleaned, and snapshots expire.
    """
    if table.using == "delta":
        commits = _history(table, since)
        found = [commit.mark for commit in commits]
        whole = since is None or not commits or commits[-1].version == since + 1
    else:
        at = table.version()  # ahead of the snapshots, which may become more at any moment
        snapshots = table.spark.table(f"{table.name}.snapshots")
        told = snapshots.selectExpr("snapshot_id", "parent_id", f"summary['{_MARK}']").collect()
        known = {snapshot: (parent, mark) for snapshot, parent, mark in told}
        found = []
        while at != since and at in known:
            parent, mark = known[at]
            found.append(mark)
            at = parent or 0
        whole = at in (0, since)
    return [mark for mark in found if mark is not None], whole


def was_undone(table: LakeTable, since: int) -> bool:
    """Whether the table lost what it had at the version `since`: by going back further, or by a replacement.

    False if nothing tells: logs are cleaned, and snapshots expire.
    """
    if table.using == "iceberg":
        return _left_branch(table, since)
    if table.version() < since:
        return True
    at = None
    for commit in _history(table, since):
        if at is not None and commit.version > at:
            continue  # a RESTORE has undone it
        if commit.operation.startswith(_REPLACES):
            return True
        if commit.operation == "RESTORE":
            # By a time it tells no version.
            at = -1 if commit.restored is None else commit.restored
            if at < since:
                return True
    return False


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit in Delta's log; `restored` is the version that a RESTORE names."""

    version: int
    mark: str | None
    operation: str
    restored: int | None


def _history(table: LakeTable, since: int | None) -> list[_Commit]:
    """The commits of Delta's log after the version `since`, by default all; newest first."""
    count = None if since is None else table.version() - since
    while count != 0:
        limit = "" if count is None else f" LIMIT {count}"
        history = table.spark.sql(f"DESCRIBE HISTORY {table.name}{limit}").selectExpr(
            "version",
            "userMetadata",
            "coalesce(operation, '')",  # a writer need not name it
            "try_cast(operationParameters['version'] AS int)",
        )
        commits = [_Commit(*row) for row in history.collect()]
        if since is None or count is None or not commits or commits[0].version - since <= count:
            return commits
        count = commits[0].version - since  # others came meanwhile, and took the place of the oldest
    return []


def _left_branch(table: LakeTable, since: int) -> bool:
    """Whether an Iceberg table's snapshot `since` is none that led to the current one."""
    jvm: Any = table.spark._jvm
    iceberg: Any = table.loaded().table()
    was = iceberg.snapshot(since)
    if iceberg.currentSnapshot() is None:
        return since != 0
    snapshots = jvm.org.apache.iceberg.util.SnapshotUtil
    if was is None or snapshots.isAncestorOf(iceberg, since):
        return False
    # Snapshots may be expired by their ids: then what led to the current one is not known as far back.
    oldest = snapshots.oldestAncestor(iceberg)
    return oldest.parentId() is None or oldest.timestampMillis() <= was.timestampMillis()
