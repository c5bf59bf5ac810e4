"""Batches that a stop of their query cuts off: soon, and as an end, not as a failure."""

import threading
from contextlib import suppress
from functools import cache
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay.errors import PgrelayError
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.topic_ids import Apply

_LOOK_EVERY_S: Final = 0.5
# Spark takes an error of foreachBatch for an interruption if its regular expression finds this there.
_AS_SPARK_KNOWS_IT: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: java.lang.InterruptedException"
)


def ending_if_cut_off(source: QuerySource, apply: Apply) -> Apply:
    """`apply`, of one run of the query: a stop ends the batch soon, and without an error.

    Spark itself cancels only the jobs that run at that moment, so that all others, and the stop, would take
    until the batch's end. Then it looks in all that was raised, with Java's traces, for words that mean an
    interruption, recursively: it overflows its stack, and prints a thousand lines of that.
    """
    spark = source.session

    @cache
    def running() -> StreamingQuery:
        query = spark.streams.get(source.checkpoint.query_id())
        assert query is not None, "a batch outside of its query"
        return query

    def applied(batch: DataFrame, number: int) -> None:
        query = running()
        ended = threading.Event()
        watch = threading.Thread(target=_cancel_when_stopped, args=(spark, query, ended), daemon=True)
        watch.start()
        try:
            apply(batch, number)
        except Exception:
            if query.isActive:
                raise
            raise PgrelayError(f"the query was stopped during a batch: {_AS_SPARK_KNOWS_IT}") from None
        finally:
            ended.set()
            watch.join()

    return applied


def _cancel_when_stopped(spark: SparkSession, query: StreamingQuery, ended: threading.Event) -> None:
    """Once the query is asked to stop, cancel all jobs that its batch still begins."""
    context: Any = spark.sparkContext._jsc
    with suppress(Py4JError, ConnectionError):  # without Java there are no jobs, either
        while query.isActive:
            if ended.wait(_LOOK_EVERY_S):
                return
        context.sc().cancelJobGroupAndFutureJobs(query.runId, "the query was stopped")
