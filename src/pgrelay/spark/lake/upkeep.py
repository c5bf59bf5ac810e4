"""Keeping targets fast and small: compaction of small files, and purge of old versions."""

from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import told_of
from pgrelay.spark.lake.named import lake_table
from pgrelay.spark.lake.positions import positions_table
from pgrelay.spark.lake.tables import LakeTable, Using

# Delta's own minimum: a reader or a writer may be at an old version.
_KEPT: Final = timedelta(days=7)


def compact(spark: SparkSession, target: str, *, using: Using = "delta") -> None:
    """Rewrite a target's small files as large ones, without the rows that are marked as deleted.

    The rows stay the same, as do older versions until they are purged. Run it between two batches of the
    mirror: a batch that runs meanwhile may fail, and is repeated when the mirror is started again. Raises
    SetupError if there is no such table, and PgrelayError if Delta or Iceberg fails.
    """
    table = _existing(spark, target, using)
    with told_of(f"compact {target}"):
        if using == "delta":
            spark.sql(f"OPTIMIZE {table.name}")
            spark.sql(f"REORG TABLE {table.name} APPLY (PURGE)")
            return
        files = "options => map('delete-file-threshold', '1', 'min-input-files', '2')"
        table.call("rewrite_data_files", files)
        table.call("rewrite_position_delete_files")
        table.call("rewrite_manifests")


def purge(spark: SparkSession, target: str, *, using: Using = "delta", older_than: timedelta = _KEPT) -> None:
    """Delete the files that only versions older than this need; `VERSION AS OF` can't read those any more.

    Raises SetupError if `older_than` is no timedelta or less than nothing, and with Delta if it is less than
    seven days, unless the session's `spark.databricks.delta.retentionDurationCheck.enabled` is false.
    """
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise SetupError(f"older_than={older_than!r}: write a timedelta, such as timedelta(days=7)")
    try:
        until = datetime.now(UTC) - older_than
    except OverflowError:
        raise SetupError(f"older_than={older_than}: no version is that old") from None
    table = _existing(spark, target, using)
    if using == "delta":
        checked = spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", "true") != "false"
        if checked and older_than < _KEPT:
            raise SetupError(
                f"older_than={older_than}: a reader of an old version could lose its files; take 7 days or "
                "more, or set spark.databricks.delta.retentionDurationCheck.enabled to false"
            )
    with told_of(f"purge {target}"):
        table.shed_metadata()
        if (beside := positions_table(table)).exists():
            beside.shed_metadata()
        if using == "delta":
            spark.sql(f"VACUUM {table.name} RETAIN {older_than / timedelta(hours=1)} HOURS")
            return
        table.expire(until)


def _existing(spark: SparkSession, target: str, using: Using) -> LakeTable:
    table = lake_table(spark, target, using)
    if not table.exists():
        raise SetupError(f"{table.name}: no such table")
    return table
