"""Batches that are cut off because their query was asked to stop: an end, and no failure, for Spark."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pgrelay.errors import PgrelayError
from pgrelay.spark.mirrors.topic_ids import Apply

# Spark takes an error of foreachBatch for an interruption if its regular expression finds this there.
_AS_SPARK_KNOWS_IT: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: java.lang.InterruptedException"
)


def ending_if_cut_off(spark: SparkSession, apply: Apply) -> Apply:
    """`apply`, which tells Spark in few words that a stop has cut it off; other errors pass.

    Otherwise Spark would look for such words in all that was raised, with Java's traces, recursively: it then
    overflows its stack, and prints a thousand lines of that. `spark` is the session that the query runs in.
    """

    def applied(batch: DataFrame, number: int) -> None:
        try:
            apply(batch, number)
        except Exception:
            if _is_stopped(spark):
                raise PgrelayError(f"the query was stopped during a batch: {_AS_SPARK_KNOWS_IT}") from None
            raise

    return applied


def _is_stopped(spark: SparkSession) -> bool:
    """Whether the query whose batch runs in this thread was asked to stop."""
    number = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    query = spark.streams.get(number) if number else None
    return query is not None and not query.isActive
