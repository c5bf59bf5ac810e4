"""The process of `pgrelay spark-mirror`: a session, one query, its metrics, and an orderly end."""

import logging
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pgrelay import spark as pg
from pgrelay.early_stop import active_recorder, set_handlers
from pgrelay.errors import Interrupted
from pgrelay.spark.session import silence_logger
from pgrelay.spark_mirror.config import MirrorConfig
from pgrelay.spark_mirror.failure import wrap_java_exit, wrap_start_errors
from pgrelay.spark_mirror.upkeep import Upkeep
from pgrelay.status.listening import listen_error

_log = structlog.get_logger(__name__)

_QUERY: Final = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"

# Where PySpark logs each statement that Spark refuses, even if that is caught.
_STATEMENTS: Final = "SQLQueryContextLogger"

# They would log a stack trace of each task and statement that is cancelled.
_CANCELLATION_LOGGERS: Final = (
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.delta.commands.MergeIntoCommand",
    "org.apache.spark.sql.delta.files.DeltaFileFormatWriter",
)

# PySpark shows a bar for each stage by default, between the lines of the log.
_NO_PROGRESS_BARS: Final = {"spark.ui.showConsoleProgress": "false"}

_POLL_INTERVAL_S: Final = 1

# Less than the 30 s that Kubernetes waits before it kills.
_GRACE_S: Final = 20.0


def run(config: MirrorConfig, *, once: bool = False) -> None:
    """Mirror until SIGTERM or SIGINT; with `once`, until the targets have what the topics hold by now.

    Raises SetupError, GapError or RecordError as `pgrelay.spark.mirror` does, PgrelayError if Spark itself
    fails, and Interrupted if a signal comes first with `once`.
    """
    stop = threading.Event()
    done = False
    metrics = metrics_registry()
    try:
        with _stop_on_signal(stop), _metrics_server(config, metrics), wrap_java_exit(stop):
            with wrap_start_errors("spark, lake.warehouse"):
                spark = _session(config)
            _silence_failures(spark)
            set_handlers(lambda _number, _frame: stop.set())
            try:
                spark.streams.addListener(_listener(spark, config, metrics))
                upkeep = Upkeep(spark, config.lake)
                while not (done or stop.is_set()):
                    with wrap_start_errors("kafka.options, lake"):
                        query = _query(spark, config, once)
                    # With --once, targets that are due wait until it has read all.
                    done = _await_query(spark, query, stop, math.inf if once else upkeep.until_due_s())
                    if not stop.is_set():
                        upkeep.run(stop)
                _drain_listener_bus(spark)
            finally:
                spark.stop()
    except KeyboardInterrupt:
        pass  # a signal came before the mirror began
    _log.info("stopped")
    if once and not done:
        raise Interrupted("stopped before the targets had all that the topics hold: run it again")


def metrics_registry() -> CollectorRegistry:
    """A registry for the mirror's metrics, with the process's own: PgrelayRestarts counts its starts."""
    created = CollectorRegistry()
    ProcessCollector(registry=created)
    return created


def _session(config: MirrorConfig) -> SparkSession:
    """The session, on spark-submit's master if there is one, else on the configured one."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = None if submitted else config.spark.master
    _log.info("starting Spark", master=master or "spark-submit's")
    spark = pg.session(
        config.lake.warehouse,
        master,
        options=_NO_PROGRESS_BARS | config.spark.options,
        jars=config.spark.jars,
        progress=_log_fetch,
    )
    _log.info("Spark runs", version=spark.version, master=spark.sparkContext.master)
    return spark


def _silence_failures(spark: SparkSession) -> None:
    """Keep Py4J and Spark from logging what a batch raises, with Java's traces: `_await_query` reports it."""
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    PySparkLogger.getLogger(_STATEMENTS).setLevel(logging.CRITICAL)
    silence_logger(spark, _QUERY)


def _log_fetch(name: str, size: int) -> None:
    if size == 0:
        _log.info("fetching", jar=name)


def _listener(spark: SparkSession, config: MirrorConfig, metrics: CollectorRegistry) -> pg.MirrorListener:
    kafka = config.kafka
    return pg.MirrorListener(
        spark,
        kafka.servers,
        config.lake.tables,
        options=kafka.options,
        registry=kafka.schema_registry or None,
        metrics=metrics,
    )


def _query(spark: SparkSession, config: MirrorConfig, once: bool) -> StreamingQuery:
    kafka, lake = config.kafka, config.lake
    every = {"processingTime": f"{lake.every_s * 1000:.0f} milliseconds"}
    query = pg.history if lake.history else partial(pg.mirror, whole_transactions=lake.whole_transactions)
    return query(
        spark,
        kafka.servers,
        lake.tables,
        prefix=kafka.prefix,
        checkpoint=config.checkpoint,
        using=lake.using,
        trigger={"availableNow": True} if once else every,
        options=kafka.options,
        on_missing=lake.on_missing,
        corrupt_to=lake.corrupt_to,
        registry=kafka.schema_registry or None,
        placeholder=kafka.placeholder,
        text_columns=lake.text_columns,
    )


def _await_query(spark: SparkSession, query: StreamingQuery, stop: threading.Event, timeout_s: float) -> bool:
    """Wait until the query ends, or we are to `stop`, or time is up; then until the current batch has ended.

    Returns whether the query ended by itself.
    """
    until = time.monotonic() + timeout_s
    try:
        while not stop.is_set() and time.monotonic() < until:
            if query.awaitTermination(_POLL_INTERVAL_S):
                return True
        if not _finish_batch(query, stop):
            for logger in _CANCELLATION_LOGGERS:
                silence_logger(spark, logger)
        if not query.isActive:
            query.awaitTermination()  # raises what it ended with
            return True
        query.stop()
    except StreamingQueryException as error:
        failure = pg.query_error(error)
        if type(failure) is pg.PgrelayError:  # not a refusal of ours
            _log.error("the query failed", spark=str(error))
        raise failure from error
    return False


def _finish_batch(query: StreamingQuery, stop: threading.Event) -> bool:
    """Wait for the current batch, but only for a while once we are to `stop`. False if that was too short.

    To cut it off does no harm, but all of it is repeated.
    """
    _log.info("stopping after the current batch" if stop.is_set() else "pausing after the current batch")
    deadline = math.inf
    done = _last_batch(query)
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == done:
        deadline = min(deadline, time.monotonic() + _GRACE_S) if stop.is_set() else deadline
        if time.monotonic() > deadline:
            _log.warning("the current batch is cut off, and will be repeated", waited_s=_GRACE_S)
            return False
        query.awaitTermination(_POLL_INTERVAL_S)
    return True


def _drain_listener_bus(spark: SparkSession) -> None:
    """Wait for the listener, which hears of the last batch only a moment after the batch has ended."""
    context: Any = spark.sparkContext._jsc
    with suppress(Py4JError):  # a missing log line is no failure
        context.sc().listenerBus().waitUntilEmpty(int(_GRACE_S * 1000))


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


@contextmanager
def _metrics_server(config: MirrorConfig, metrics: CollectorRegistry) -> Iterator[None]:
    """Serves the metrics at the configured address during the block."""
    if config.http.address is None:
        yield
        return
    host, port = config.http.address
    try:
        server, thread = start_http_server(port, host, metrics)
    except OSError as error:
        raise listen_error(host, port, error) from error
    _log.info("metrics", url=f"http://{host}:{server.server_port}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _stop_on_signal(stop: threading.Event) -> Iterator[None]:
    """Lets a signal end the start right away, until there is a query to stop. Ignores them afterwards."""

    def leave(number: int, frame: object) -> None:
        stop.set()
        raise KeyboardInterrupt  # Py4J takes an Exception for a broken connection

    earlier = active_recorder()
    set_handlers(leave)
    try:
        if earlier is not None and earlier.number:
            raise KeyboardInterrupt
        yield
    finally:
        # The exit code is decided, and the defaults would change it.
        set_handlers(signal.SIG_IGN)
