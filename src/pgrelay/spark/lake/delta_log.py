"""Trims the log of an internal Delta table, of which nobody reads an old version."""

from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_EVERY: Final = 50  # commits


def trim_log(spark: SparkSession, table: JavaObject) -> None:
    """Remove the entries older than the table's retention. To be called after each commit; it acts on some.

    Delta does that itself, but keeps all entries of a day, and lists them several times a batch.
    """
    try:
        log: Any = table.deltaLog()
        snapshot = log.unsafeVolatileSnapshot()
        if snapshot.version() % _EVERY == 0:
            jvm: Any = spark._jvm
            none = jvm.scala.Option.empty()
            granularity = getattr(jvm.org.apache.spark.sql.delta, "TruncationGranularity$")
            log.cleanUpExpiredLogs(snapshot, none, none, getattr(granularity, "MODULE$").MINUTE())
    except (Py4JError, TypeError):
        # The call is not public in Delta. Without it, there is still Delta's own daily cleanup.
        pass
