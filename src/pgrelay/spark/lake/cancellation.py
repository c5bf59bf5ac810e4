"""Ends a batch soon when its query is stopped, and ends the query without a failure."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pgrelay.errors import PgrelayError

_POLL_INTERVAL_S: Final = 0.5
# Spark takes an error of foreachBatch for an interruption if its regular expression matches this in it.
_INTERRUPTION: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch: java.lang.InterruptedException"
)


@contextmanager
def cancelled_on_stop(spark: SparkSession) -> Iterator[None]:
    """For work on a batch of a streaming query: a stop ends the block soon, and the query without an error.

    Spark itself cancels only the jobs that are running, so that the stop would wait for all that follow in
    the batch. It then searches what was raised, Java's traces included, for signs of an interruption, and
    does so recursively: its stack overflows, which it reports in a thousand lines.
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
        raise PgrelayError(f"the query was stopped during a batch: {_INTERRUPTION}") from None
    finally:
        ended.set()
        watch.join()


def _query_of_this_batch(spark: SparkSession) -> Any:
    """Java's object for the query whose batch this thread works on; None if it works on none."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        return None
    jvm: Any = spark._jvm
    # Not `spark.streams`: a batch's session is a clone, which has none of the queries.
    running = spark._jsparkSession.sharedState().activeStreamingQueries()
    return running.get(jvm.java.util.UUID.fromString(query_id))


def _cancel_when_stopped(spark: SparkSession, query: Any, ended: threading.Event) -> None:
    """Once the query is asked to stop, cancel all jobs of its batch, those that it has yet to begin too."""
    context: Any = spark.sparkContext._jsc
    with suppress(Py4JError, ConnectionError):  # without Java there are no jobs, either
        while query.isActive():
            if ended.wait(_POLL_INTERVAL_S):
                return
        run_id = query.runId().toString()
        context.sc().cancelJobGroupAndFutureJobs(run_id, "the query was stopped")
