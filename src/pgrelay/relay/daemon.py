"""Runs session after session until it is asked to stop, or something is wrong for good.

Theory of operation. A session that ends in a transient error is followed by another after a growing, jittered
pause. The producer is kept unless it caused the error. Before the next session starts, what is in the
producer's queue gets a moment to be acknowledged, so that little is sent twice. A reason that recurs is
logged every ten minutes, and /readyz shows it. After the spool's disk was full, each try makes the server
decode everything again. So those tries are rarer, each is logged, and the stream counts as flowing only once
a try gets further. Any other error is raised, and ends the process.
"""

import asyncio
import contextlib
import gc
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

import structlog

from pgrelay import __version__
from pgrelay.assembly.open_transaction import OpenTransaction
from pgrelay.config import Config
from pgrelay.errors import (
    KafkaUnavailable,
    PgrelayError,
    RecordRefused,
    SpoolError,
    TransientError,
    Verdict,
    verdict,
)
from pgrelay.lsn import format_lsn
from pgrelay.metrics import Metrics
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from pgrelay.relay.backoff import Backoff
from pgrelay.relay.observer import Observer
from pgrelay.relay.password_rotation import PasswordRotation
from pgrelay.relay.refusals import Refusals
from pgrelay.relay.session import Session
from pgrelay.relay.session_factory import SessionFactory
from pgrelay.relay.tasks import cancel_and_wait, force_cancel, start_optional
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

# How long the producer's queue may take to be acknowledged before the next session starts.
_SETTLE_S: Final = 5.0

# The longest pause between two tries after a spool's disk was full.
_SPOOL_PAUSE_S: Final = 60.0

_HEARTBEAT_S: Final = 1.0

_IN_TROUBLE: Final = "stopping in an outage: what is not confirmed is sent again"
_CUT_SHORT: Final = "stopping before Kafka has acknowledged everything; the rest will be sent again"

Advise = Callable[[Config], Coroutine[Any, Any, None]]


class Goal(Protocol):
    """What a run that is not meant to last is for: it stops once the goal is `reached`."""

    @property
    def reached(self) -> bool: ...

    def on_begin(self, session: Session) -> None:
        """Called before a session has encoded anything."""

    def on_turn(self, session: Session) -> None:
        """Called once a turn."""


class _Failure(NamedTuple):
    """What ended a session, which was `serial` or not, and how far it had read."""

    error: Exception
    serial: bool
    read_lsn: int


class Daemon:
    """Runs sessions until `stop` is called or the goal, if there is one, is reached."""

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        health: Health,
        advise: Advise | None = None,
        goal: Goal | None = None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._health = health
        self._goal = goal
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._current: Session | None = None
        # What ended the session's stream, until the session itself has ended.
        self._failed: _Failure | None = None
        self._backoff = Backoff()
        self._observer = Observer(metrics, health)
        self._refusals = Refusals(config)
        self._rotation = PasswordRotation()
        self._sessions = SessionFactory(config, metrics, self._observer, self._refusals)
        self._advise = advise
        self._advice: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Return once asked to stop. Raises the error that ends the process."""
        _log.info("starting", version=__version__, **_summary(self._config))
        heartbeat = asyncio.create_task(self._beat())
        try:
            while not self._stop.is_set():
                self._task = asyncio.create_task(self._try())
                try:
                    await self._task
                except asyncio.CancelledError:
                    if not self._stop.is_set():
                        raise
                # An ended session is in reference cycles, with its tables' plans: megabytes if they are many.
                gc.collect()
        finally:
            heartbeat.cancel()
            await cancel_and_wait(self._advice)
            await self._sessions.close()
        confirmed_lsn = self._sessions.resume_point.confirmed_lsn
        # Not 0/0 if no stream had begun: that would look like a slot that lost its position.
        _log.info("stopped", **({"confirmed": format_lsn(confirmed_lsn)} if confirmed_lsn else {}))

    async def _try(self) -> None:
        """Run a session, and after it what its end requires. Raises what ends the process."""
        try:
            await self._session()
        except asyncio.CancelledError:
            # A second request to stop cancels what a session does at its end, but must not hide the error.
            if self._failed is None or not self._stop.is_set():
                raise
            ended = self._failed.error
        except Exception as error:
            ended = self._rotation.classify(error)
        else:
            return
        failed, self._failed = self._failed, None  # it refers to the session
        # Not in the handler: see kafka/reports.py.
        if verdict(ended) is Verdict.STOP and not isinstance(ended, RecordRefused):
            raise ended
        if self._stop.is_set():
            # The next run meets the same trouble, and has time to wait it out.
            _log.warning(_IN_TROUBLE, reason=str(ended))
        elif isinstance(ended, RecordRefused):
            await self._adapt(ended, failed)
        else:
            assert isinstance(ended, TransientError), "the verdict of no other is to retry"
            await self._recover(ended)

    async def _adapt(self, error: RecordRefused, failed: _Failure | None) -> None:
        """Make sure that the next session gets further. Raises the error if it would not."""
        # A record that is refused before the stream begins would be refused again, sent serially or not.
        serial, read_lsn = (True, 0) if failed is None else (failed.serial, failed.read_lsn)
        try:
            adapted = await self._refusals.adapt_to(error, serial, read_lsn)
        except KafkaUnavailable as unavailable:
            await self._recover(unavailable)
            return
        if not adapted:
            raise error
        # The next producer sends batches no larger than the topic takes.
        await self._sessions.close_sink(error)

    def stop(self) -> None:
        """Request a stop. A session whose stream has begun first finishes what is in flight.

        If this is the second request, or there is no such session, whatever runs is cancelled.
        """
        again = self._stop.is_set()
        self._stop.set()
        if self._current is not None and not again:
            self._current.source.wake()
        elif self._task is not None:
            force_cancel(self._task)

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The transactions that wait for their commit now."""
        return [] if self._current is None else self._current.assembler.open_transactions()

    async def _beat(self) -> None:
        """Show /healthz that the event loop runs, whatever the relay waits for."""
        while True:
            self._health.beat()
            await asyncio.sleep(_HEARTBEAT_S)

    async def _recover(self, error: TransientError) -> None:
        """Wait before the next try, and report why."""
        spool = isinstance(error, SpoolError)
        self._metrics.reconnects[error.end] += 1
        self._health.set_waiting(str(error))
        self._health.troubles.record_error(error)
        if self._backoff.should_log(str(error)) or spool:
            lasts_s = round(self._backoff.outage_s)
            lasting = {"lasts_s": lasts_s} if lasts_s else {}
            _log.warning("waiting, will go on by itself", reason=str(error), **lasting)
        await self._sessions.adapt_to(error)
        with contextlib.suppress(TimeoutError):
            pause_s = self._backoff.next_s(_SPOOL_PAUSE_S) if spool else self._backoff.next_s()
            await asyncio.wait_for(self._stop.wait(), pause_s)

    async def _session(self) -> None:
        """One session, from connecting to its end. Returns when asked to stop."""
        dsn = self._config.source.dsn
        self._observer.on_wait("Postgres")
        async with Catalog(dsn) as catalog, Source(dsn) as source:
            self._rotation.accepted()
            await self._stream(await self._sessions.open(catalog, source))

    async def _stream(self, session: Session) -> None:
        """Run a session; whatever ends it, keep what it has learnt about the position."""
        self._current = session
        if self._advise is not None and self._advice is None:
            # Only now: that a server has yet to come back is no finding.
            self._advice = start_optional(self._advise(self._config), "the advice of a check")
        self._observer.on_begin(session)
        if self._goal is not None:
            self._goal.on_begin(session)
        try:
            failure = await self._run(session)
            self._observer.on_end(session, failure)
            if failure is not None:
                raise failure
        finally:
            try:
                await session.close()
            finally:
                # Even if that is cancelled: the next session, or the last log line, needs the position.
                self._on_end(session)

    def _on_end(self, session: Session) -> None:
        self._current = None
        self._observer.publish(session)
        if session.ledger.flush_lsn > self._sessions.resume_point.flush_lsn:
            self._backoff.reset()
        self._sessions.on_end(session)

    async def _run(self, session: Session) -> Exception | None:
        """Run a session until asked to stop. Returns the error that ended it earlier, if one did."""
        clock, grace_s = asyncio.get_running_loop(), self._config.sink.shutdown_grace_s
        deadline = None
        try:
            await session.run(self._stop, self._on_turn)
            deadline = clock.time() + grace_s
            if not await session.finish(grace_s):
                _log.warning(_CUT_SHORT)
            return None
        except asyncio.CancelledError:
            # The second request to stop.
            if session.ledger.has_unacknowledged:
                _log.warning(_CUT_SHORT)
            raise
        except Exception as error:
            failure = error
            self._failed = _Failure(error, session.serial, session.ledger.server_lsn)
        # Not in the handler: see kafka/reports.py.
        if not isinstance(failure, KafkaUnavailable):
            # A stop has a single grace period, whatever fails meanwhile.
            left_s = math.inf if deadline is None else max(0.0, deadline - clock.time())
            await self._settle(session, failure, left_s)
        return failure

    def _on_turn(self, session: Session) -> None:
        self._observer.on_turn(session)
        if self._goal is not None:
            self._goal.on_turn(session)
            if self._goal.reached:
                self._stop.set()

    async def _settle(self, session: Session, error: Exception, max_s: float) -> None:
        """Before a session ends in an error, get complete transactions acknowledged: less is sent again."""
        with contextlib.suppress(PgrelayError):
            if verdict(error) is Verdict.STOP:
                await session.finish(min(self._config.sink.shutdown_grace_s, max_s))
            else:
                await session.settle(min(_SETTLE_S, max_s))


def _summary(config: Config) -> dict[str, str]:
    return {
        "slot": config.source.slot,
        "kafka": str(config.sink.kafka["bootstrap.servers"]),
        "http": config.http.listen or "off",
    }
