"""Keeps targets fast and small: compaction of small files, and purge of old versions."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from pgrelay.errors import SetupError
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.lake.delta import MIN_RETENTION
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import LakeTable, Using


def compact(spark: SparkSession, target: str, *, using: Using = "delta") -> None:
    """Rewrite a target's small files as large ones, without the rows that are marked as deleted.

    The rows stay the same, as do older versions until they are purged. Run it between two batches of the
    mirror: a batch that runs meanwhile may fail, and is repeated when the mirror is started again. Raises
    SetupError if there is no such table, and PgrelayError if Delta or Iceberg fails.
    """
    table = _existing_table(spark, target, using)
    with wrap_java_errors(f"compact {target}"):
        table.compact()


def purge(
    spark: SparkSession, target: str, *, using: Using = "delta", older_than: timedelta = MIN_RETENTION
) -> None:
    """Delete the files that only versions older than this need; `VERSION AS OF` can't read those any more.

    Raises SetupError if `older_than` is no timedelta or less than nothing, and with Delta if it is less than
    seven days, unless the session's `spark.databricks.delta.retentionDurationCheck.enabled` is false.
    """
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise SetupError(f"older_than={older_than!r}: write a timedelta, such as timedelta(days=7)")
    if older_than > datetime.now(UTC) - datetime.min.replace(tzinfo=UTC):
        raise SetupError(f"older_than={older_than}: no version is that old")
    table = _existing_table(spark, target, using)
    table.refuse_purge(older_than)
    with wrap_java_errors(f"purge {target}"):
        table.purge(older_than)


def _existing_table(spark: SparkSession, target: str, using: Using) -> LakeTable:
    table = lake_table(spark, target, using)
    if not table.exists():
        raise SetupError(f"{table.name}: no such table")
    return table
