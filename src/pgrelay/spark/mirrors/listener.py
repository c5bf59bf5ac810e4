"""A streaming listener that reports how far mirrors are, as Prometheus metrics and as log lines."""

import json
from collections.abc import Mapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from pgrelay.errors import SetupError
from pgrelay.lsn import format_lsn
from pgrelay.spark.failures import one_line
from pgrelay.spark.kafka import refuse_invalid_source
from pgrelay.spark.mirrors.checkpoint import Offsets
from pgrelay.spark.mirrors.metrics import MirrorMetrics
from pgrelay.spark.mirrors.query_state import checkpoints, held_since
from pgrelay.spark.mirrors.topic_ends import TopicEnds
from pgrelay.spark.schemas.registry import Registry

_log = structlog.get_logger(__name__)

_MS: float = 1000.0


class MirrorListener(StreamingQueryListener):
    """Follows the mirrors of a session: `spark.streams.addListener(MirrorListener(...))`.

    After each micro-batch it sets the metrics, and logs a line for each table that had records in it. The lag
    is measured against the topics' ends at that time: in offsets, in bytes of WAL, and as the age of the
    oldest commit that the target lacks. That costs a small Spark job, with Avro up to four, over a few
    records of each partition that was written or read since the last time. An idle query has its lag measured
    too, whenever it reports being idle. The metrics' `table` is the topic.

    spark     the session that the mirrors were started in
    tables    the mirrors': a target for each topic
    options   those of Spark's Kafka source
    registry  for records in Avro, the URL of the schema registry or the options of Confluent's client
    metrics   where the metrics go; by default prometheus_client's own registry, once per process

    Raises SetupError if another listener's metrics are there, or an argument is mistaken.
    """

    def __init__(
        self,
        spark: SparkSession,
        servers: str,
        tables: Mapping[str, str],
        *,
        options: Mapping[str, str] | None = None,
        registry: str | Mapping[str, Any] | None = None,
        metrics: CollectorRegistry | None = None,
    ) -> None:
        if not isinstance(tables, Mapping):
            raise SetupError(f"tables={tables!r}: give the mirrors' targets by topic, in a dict")
        refuse_invalid_source(spark, servers, options, streaming=True)
        self._tables = dict(tables)
        known = None if registry is None else Registry(registry)
        self._ends = TopicEnds(spark, servers, options=options, registry=known)
        # The last step that can fail, since registered metrics stay registered.
        try:
            self._metrics = MirrorMetrics(metrics)
        except ValueError as error:  # shared by two listeners, they would count each batch twice
            raise SetupError(
                "a MirrorListener of this process has these metrics already: keep that one, with the tables "
                "of all mirrors, or give this one a registry of its own, metrics=CollectorRegistry()"
            ) from error
        for topic in self._tables:
            self._metrics.track_lag(topic)
        self._running = set[str]()  # runs of queries
        self._read: dict[str, Offsets] = {}  # by run of a query
        self._held: dict[str, float] = {}  # by run: the time of the oldest commit that it holds back

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self._mark_running(str(event.runId))
        _log.info("query started", query=str(event.id), run=str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        # The first event of a query that was started before the listener was added.
        self._mark_running(str(progress.runId))
        end = self._offsets_of(progress, "endOffset")
        if not end:
            return  # somebody else's query
        seconds = progress.durationMs.get("triggerExecution", 0) / _MS
        self._metrics.observe_batch(seconds)
        self._set_held(str(progress.runId), held_since.get(str(progress.id)))
        start = self._start_offsets(progress, end)
        counts = {topic: _count_offsets(start.get(topic, {}), offsets) for topic, offsets in end.items()}
        for topic, records in counts.items():
            self._metrics.add_records(topic, records)
        self._read[str(progress.runId)] = end
        self._report(end, counts, batch=progress.batchId, seconds=seconds)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        run = str(event.runId)
        self._mark_running(run)
        if run not in self._read:
            self._read[run] = self._committed_before(str(event.id))
        if self._read[run]:
            self._report(self._read[run], {})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        run = str(event.runId)
        self._running.discard(run)
        self._metrics.set_running(len(self._running))
        self._read.pop(run, None)
        self._set_held(run, None)  # it no longer reports what it holds
        if event.exception is None:
            _log.info("query ended", query=str(event.id))
        else:
            _log.error("query failed", query=str(event.id))

    def _mark_running(self, run: str) -> None:
        self._running.add(run)
        self._metrics.set_running(len(self._running))

    def _set_held(self, run: str, since_s: float | None) -> None:
        if since_s is None:
            self._held.pop(run, None)
        else:
            self._held[run] = since_s
        self._metrics.set_held_since(min(self._held.values(), default=None))

    def _start_offsets(self, progress: StreamingQueryProgress, end: Offsets) -> Offsets:
        """Where a batch that read up to `end` began, for the same topics."""
        start = self._offsets_of(progress, "startOffset")
        if start.keys() >= end.keys():
            return start
        # Spark gives none for a query's first batch, wherever it began.
        checkpoint = checkpoints.get(str(progress.id))
        return start if checkpoint is None else {**checkpoint.start_offsets(), **start}

    def _committed_before(self, query: str) -> Offsets:
        """How far the earlier runs of a query have read the mirrored topics; empty if it is another's."""
        checkpoint = checkpoints.get(query)
        read = {} if checkpoint is None else checkpoint.committed_offsets()
        return {topic: offsets for topic, offsets in read.items() if topic in self._tables}

    def _offsets_of(self, progress: StreamingQueryProgress, which: str) -> Offsets:
        """The offsets of the mirrored topics in a progress event."""
        found: dict[str, dict[int, int]] = {}
        for source in progress.sources:
            for topic, offsets in _parse_offsets(getattr(source, which)).items():
                if topic in self._tables:
                    found[topic] = {int(number): offset for number, offset in offsets.items()}
        return found

    def _report(self, read: Offsets, counts: Mapping[str, int], **more: float) -> None:
        try:
            lags = self._ends.lags(read)
        except Exception as error:  # of Kafka or Spark; a mirror must not end because a metric is missing
            _log.warning("the lag is not known", reason=one_line(error))
            return
        for topic, lag in lags.items():
            self._metrics.set_lag(topic, lag)
            if counts.get(topic):
                _log.info(
                    "batch",
                    table=topic,
                    target=self._tables[topic],
                    records=counts[topic],
                    lsn=format_lsn(lag.lsn),
                    lag_records=lag.records,
                    **more,
                )


def _parse_offsets(offsets: str | None) -> dict[str, dict[str, int]]:
    """The offsets as Spark's Kafka source writes them; empty if they are another source's."""
    try:
        found = json.loads(offsets or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {topic: parts for topic, parts in found.items() if isinstance(parts, dict)}


def _count_offsets(start: Mapping[int, int], end: Mapping[int, int]) -> int:
    """The number of offsets from start to end; a new partition begins at 0."""
    # A topic that was re-created ends before the end of the last batch.
    return sum(max(0, offset - start.get(number, 0)) for number, offset in end.items())
