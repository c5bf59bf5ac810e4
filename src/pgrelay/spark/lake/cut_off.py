"""Batches that a stop of their query cuts off: soon, and as an end, not as a failure."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pgrelay.errors import PgrelayError

_LOOK_EVERY_S: Final = 0.5
# Spark takes an error of foreachBatch for an interruption if its regular expression finds this there.
_AS_SPARK_KNOWS_IT: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: java.lang.InterruptedException"
)


@contextmanager
def ended_by_a_stop(spark: SparkSession) -> Iterator[None]:
    """For work on a batch of a streaming query: a stop ends the block soon, and the query without an error.

    Spark itself cancels only the jobs that run at that moment, so that all others, and the stop, would take
    until the batch's end. Then it looks in all that was raised, with Java's traces, for words that mean an
    interruption, recursively: it overflows its stack, and prints a thousand lines of that.
    """
    query = _query_of_this_batch(spark)
    if query is None:
        yield
        return
    ended = threading.Event()
    watch = threading.Thread(target=_cancel_when_stopped, args=(spark, query, ended), daemon=True)
    watch.start()
    try:
        yield
    except Exception:
        if query.isActive():
            raise
        raise PgrelayError(f"the query was stopped during a batch: {_AS_SPARK_KNOWS_IT}") from None
    finally:
        ended.set()
        watch.join()


def _query_of_this_batch(spark: SparkSession) -> Any:
    """Java's object for the query whose batch this thread works on; None if it is no query's."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        return None
    jvm: Any = spark._jvm
    # Not `spark.streams`: a batch's session is a clone, which knows none of the queries.
    running = spark._jsparkSession.sharedState().activeStreamingQueries()
    return running.get(jvm.java.util.UUID.fromString(query_id))


def _cancel_when_stopped(spark: SparkSession, query: Any, ended: threading.Event) -> None:
    """Once the query is asked to stop, cancel all jobs that its batch still begins."""
    context: Any = spark.sparkContext._jsc
    with suppress(Py4JError, ConnectionError):  # without Java there are no jobs, either
        while query.isActive():
            if ended.wait(_LOOK_EVERY_S):
                return
        run_id = query.runId().toString()
        context.sc().cancelJobGroupAndFutureJobs(run_id, "the query was stopped")
