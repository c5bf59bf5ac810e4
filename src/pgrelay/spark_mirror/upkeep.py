"""Compacts and purges targets while no batch runs, since a conflict might fail the batch."""

import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from typing import Final

import structlog
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.spark.failures import wrap_java_errors
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import LakeTable
from pgrelay.spark_mirror.config import Lake

_log = structlog.get_logger(__name__)

# A property of the target: when it was last compacted and purged.
_DONE: Final = "pgrelay.upkeep"

_HOUR_S: Final = 3600.0
_POLL_INTERVAL_S: Final = 1.0

# So that the query pauses once for all targets: those due within this part of the interval are done too.
_SOON: Final = 0.1


class Upkeep:
    """The upkeep of one mirror's targets; each is due some time after its last, by whichever process."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._targets = [] if lake.upkeep_every_h is None else list(lake.tables.values())
        self._using = lake.using
        self._every_s = (lake.upkeep_every_h or 0) * _HOUR_S
        self._due: dict[str, float] = {}  # by target, in seconds since 1970

    def until_due_s(self) -> float:
        """Seconds until a target is due; inf if none ever is.

        Raises PgrelayError if a target can't be looked at; so does `run`.
        """
        return max(min(map(self._due_at, self._targets), default=math.inf) - time.time(), 0)

    def run(self, stop: threading.Event) -> None:
        """Compact and purge what is due, until `stop` is set. Failures are logged, and retried next time."""
        if self.until_due_s() > 0:
            return
        soon = time.time() + self._every_s * _SOON
        for target in self._targets:
            if self._due_at(target) > soon:
                continue
            table = self._table(target)
            with wrap_java_errors(f"upkeep of {target}"):
                exists = table.exists()
            if exists:
                self._maintain(target, table, stop)
            if stop.is_set():
                return
            # Also for a target that does not exist yet: it would stay due, and no batch would ever run.
            self._due[target] = time.time() + self._every_s

    def _table(self, target: str) -> LakeTable:
        return lake_table(self._spark, target, self._using)

    def _due_at(self, target: str) -> float:
        if target not in self._due:
            with wrap_java_errors(f"upkeep of {target}"):
                self._due[target] = self._next_due(self._table(target))
        return self._due[target]

    def _next_due(self, table: LakeTable) -> float:
        now = time.time()
        if not table.exists():
            return now + self._every_s  # a new target has nothing to compact for a while
        done = table.properties().get(_DONE)
        return now if done is None else datetime.fromisoformat(done).timestamp() + self._every_s

    def _maintain(self, target: str, table: LakeTable, stop: threading.Event) -> None:
        _log.info("compacting and purging", target=target)
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(self._compact_and_purge, target, table)
            self._cancel_on_stop(stop, work)
        error = work.exception()
        if stop.is_set():
            return
        if isinstance(error, pg.PgrelayError):
            _log.error("a target can't be compacted and purged", reason=str(error))
        elif error is not None:
            raise error
        else:
            _log.info("compacted and purged", target=target, took_s=round(time.monotonic() - began, 1))

    def _cancel_on_stop(self, stop: threading.Event, work: "Future[None]") -> None:
        """Wait for the work; once `stop` is set, cancel its jobs, which leaves the target as it was."""
        while wait([work], _POLL_INTERVAL_S).not_done:
            if stop.is_set():
                self._spark.sparkContext.cancelAllJobs()

    def _compact_and_purge(self, target: str, table: LakeTable) -> None:
        pg.compact(self._spark, target, using=self._using)
        pg.purge(self._spark, target, using=self._using)
        with wrap_java_errors(f"upkeep of {target}"):
            table.set_properties({_DONE: datetime.now().astimezone().isoformat(timespec="seconds")})
