"""The log of a Delta table of our own, of which nobody reads an old version."""

from typing import Any, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_EVERY: Final = 50  # commits


def shed_entries(spark: SparkSession, table: JavaObject) -> None:
    """Remove the entries older than the table's retention. Call it after commits; it acts at some.

    Delta does that too, but keeps all entries of a day, and lists them several times a batch.
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
        # This is no public call of Delta's. Without it, its own daily cleanup remains.
        pass
