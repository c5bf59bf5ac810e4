"""Sessions one after the other until it is asked to stop, or something is wrong for good.

Theory of operation. A session that ends in trouble which passes is followed by another, after a pause that
grows and is jittered; the producer is kept unless it was the trouble. Before the next session starts, what
the producer still holds gets a moment to be acknowledged, so that little is sent twice. The reason is logged
once, however often it comes back, and /readyz tells it. After a disk that was full, the server decodes all
again for each try: so those are rarer, each is logged, and the stream flows only once one got further. What
does not pass is raised, and ends the process.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from pgrelay import __version__
from pgrelay.assembly.assembler import Assembler, OpenTransaction
from pgrelay.assembly.base import require_own_base
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool, slot_directory
from pgrelay.config import Config
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.topics import Topics
from pgrelay.errors import (
    KafkaUnavailable,
    PgrelayError,
    RecordRefused,
    RegistryUnavailable,
    SpoolError,
    Verdict,
    verdict,
)
from pgrelay.kafka.offsets import Offsets
from pgrelay.kafka.registry import Registry
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.lsn import format_lsn
from pgrelay.metrics import End, Metrics
from pgrelay.postgres.catalog import Catalog, Slot
from pgrelay.postgres.negotiation import stream_options
from pgrelay.postgres.source import Source, System
from pgrelay.progress import Ledger
from pgrelay.relay.backoff import Backoff
from pgrelay.relay.commits import Commits
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.known import Known
from pgrelay.relay.look import Look
from pgrelay.relay.observer import Observer
from pgrelay.relay.optional import optional
from pgrelay.relay.positions import Positions
from pgrelay.relay.publications import Publications
from pgrelay.relay.recall import Server, check_kept, offsets_of, refuse_new_slot, server_of
from pgrelay.relay.records import record_options
from pgrelay.relay.refusals import Refusals
from pgrelay.relay.session import Session
from pgrelay.relay.setup import check_own, check_same, check_topics, prepare
from pgrelay.relay.supply import Supply
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

# What the producer still holds may be acknowledged for so long before the next session starts.
_SETTLE_S: Final = 5.0

# The most between two tries after a spool's disk was full.
_SPOOL_PAUSE_S: Final = 60.0

_BEAT_S: Final = 1.0

Advise = Callable[[Config], Coroutine[Any, Any, None]]


class Daemon:
    """Runs sessions until `stop` is called, or the event given as `stop` is set."""

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        health: Health,
        observer: Observer,
        stop: asyncio.Event,
        advise: Advise | None = None,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._health = health
        self._stop = stop
        self._task: asyncio.Task[None] | None = None
        self._session_now: Session | None = None
        self._sink: Sink | None = None
        self._sink_is_spent = False
        self._registry: Registry | None = None
        self._known = Known()
        self._unkept: str | None = None
        self._publications = Publications(config.source)
        self._backoff = Backoff()
        self._observer = observer
        self._refusals = Refusals(config)
        self._advise = advise
        self._advice: asyncio.Task[None] | None = None

    async def run(self) -> None:
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
        finally:
            heartbeat.cancel()
            if self._advice is not None:
                self._advice.cancel()
                await asyncio.gather(self._advice, return_exceptions=True)
            await self._close_sink()
            if self._registry is not None:
                await self._registry.close()
        _log.info("stopped", confirmed=format_lsn(self._known.confirmed_lsn))

    async def _try(self) -> None:
        """A session, and what its end asks for before the next. Raises what ends the process."""
        try:
            await self._session()
        except Exception as error:
            refused = isinstance(error, RecordRefused) and self._refusals.dead_letters is not None
            if verdict(error) is Verdict.STOP and not refused:
                raise
            if self._stop.is_set():
                # The next run meets it again, and has the time that it takes.
                _log.warning("stopping in trouble: what is not confirmed is sent again", reason=str(error))
            elif not isinstance(error, RecordRefused):
                await self._recover(error)
            elif await self._refusals.learn(error):
                await self._close_sink(error)
            else:
                raise

    def stop(self) -> None:
        """Ask for an end. A stream finishes what it has in flight, unless asked twice; all else is cut."""
        again = self._stop.is_set()
        self._stop.set()
        if self._session_now is not None and not again:
            self._session_now.source.wake()
        elif self._task is not None:
            self._task.cancel()

    async def _close_sink(self, after: Exception | None = None) -> None:
        """Once the session has ended: what it holds while an error ends it would keep the producer."""
        sink, self._sink, self._sink_is_spent = self._sink, None, False
        if sink is not None:
            self._metrics.set_inflight_records(0)
            await sink.close(after)

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """What waits for its commit now."""
        return [] if self._session_now is None else self._session_now.assembler.held()

    async def _beat(self) -> None:
        """Tell /healthz that the loop turns, whatever it waits for."""
        while True:
            self._health.beat()
            await asyncio.sleep(_BEAT_S)

    async def _recover(self, error: Exception) -> None:
        """Wait before the next try, telling why."""
        spool = isinstance(error, SpoolError)
        self._metrics.add_reconnect(_end_of(error))
        self._health.waiting(str(error))
        self._health.troubles.raised(error)
        if self._backoff.is_news(str(error)) or spool:
            _log.warning("waiting, will go on by itself", reason=str(error))
        if self._sink_is_spent or isinstance(error, KafkaUnavailable):
            await self._close_sink(error)
        with contextlib.suppress(TimeoutError):
            pause_s = self._backoff.next_s(_SPOOL_PAUSE_S) if spool else self._backoff.next_s()
            await asyncio.wait_for(self._stop.wait(), pause_s)

    async def _session(self) -> None:
        """One session, from connecting to its end. Returns when asked to stop."""
        config = self._config
        async with Catalog(config.source.dsn) as catalog, Source(config.source.dsn) as source:
            await check_same(catalog, source)
            # Whatever is waited for from here on, how far behind the slot is stays true.
            self._observer.asked(await catalog.slot_wal(config.source.slot))
            # Early, since a standby that is promoted meanwhile would tell the timeline that it leaves.
            standby = await catalog.in_recovery()
            system = await source.identify()
            self._known.check_cluster(system, standby)
            await self._known.check_history(system, source)
            offsets = offsets_of(config, system.systemid, catalog.database)
            # Ahead of the slot: what is refused here must not leave one that nobody reads.
            require_own_base(config.transactions.spool_dir)
            if self._sink is None:
                self._sink = self._make_sink(offsets)
            if self._registry is None and config.records.format == "avro":
                self._registry = Registry(config.records.schema_registry)
            before = await self._make_ready(catalog, self._sink, offsets, system, standby)
            options = stream_options(config.source, source.server_version)
            await source.start(config.source.slot, self._known.flush_lsn, options)
            # Ours only now; until then another relay, or who knows who, may have moved it.
            slot = await catalog.slot(config.source.slot) or before
            server = server_of(config, catalog, system, slot, standby)
            if slot.confirmed_flush_lsn != before.confirmed_flush_lsn:
                await self._hold_against_kafka(self._sink, offsets, server, slot)
            self._known.started(system, slot, source.walsender_pid, standby)
            if not self._observer.spool_failing:
                start = format_lsn(self._known.flush_lsn)
                _log.info("streaming", slot=config.source.slot, start=start, **dict(options.pairs()))
            session = await self._make_session(source, catalog, self._sink, offsets, server, slot)
            await self._stream(session)

    async def _make_ready(
        self, catalog: Catalog, sink: Sink, offsets: Offsets, system: System, standby: bool
    ) -> Slot:
        """See that both ends are there and fit each other, and return the slot."""
        config = self._config
        first = self._known.system is None
        found = await catalog.slot(config.source.slot)
        if standby and found is not None:
            check_own(found, config.source.slot)
        if first and found is None:
            # Without Kafka it is made all the same, to miss nothing meanwhile; and then looked at again. What
            # Kafka refuses, such as a topic, must not leave a slot that nobody reads.
            with contextlib.suppress(KafkaUnavailable):
                await refuse_new_slot(sink, offsets, standby)
                if config.source.create:
                    await self._require_topics(sink)
            # Kafka may have taken its time, and another relay have made it.
            found = await catalog.slot(config.source.slot)
        slot = await prepare(catalog, config.source, self._publications, self._known, found)
        await check_topics(catalog, config)
        self._known.check_slot(slot, config.source.slot)
        self._known.seen(slot)
        # A stream that has nowhere to go is better not begun: the server would cut it for its silence.
        await sink.connect()
        await self._require_topics(sink)
        await self._hold_against_kafka(sink, offsets, server_of(config, catalog, system, slot, standby), slot)
        if self._registry is not None:
            await self._registry.connect()
        return slot

    async def _hold_against_kafka(self, sink: Sink, offsets: Offsets, server: Server, slot: Slot) -> None:
        """At least once: see that the slot skips nothing, and that its position is kept. Raises GapError."""
        if isinstance(sink, TransactionalSink):
            # Exactly once asks after the start, when nobody else may write any more.
            return
        if not self._known.leaves_open(slot) and sink.has_topic(offsets.topic):
            return
        unkept = await check_kept(sink, offsets, server, self._known.delivered)
        if unkept is None:
            return
        if unkept != self._unkept:
            self._unkept = unkept
            _log.warning(
                "no position is known to Kafka: a slot that is lost while pgrelay is down will go unnoticed",
                reason=unkept,
            )
        self._known.check_unmoved(slot)

    async def _make_session(
        self,
        source: Source,
        catalog: Catalog,
        sink: Sink,
        offsets: Offsets,
        server: Server,
        slot: Slot,
    ) -> Session:
        """A session of its own state; the slot must be ours already."""
        config, systemid = self._config, offsets.identity.systemid
        records = record_options(
            config, catalog.database, systemid, source.server_encoding, self._refusals.dead_letters
        )
        encoder = Encoder(records, Topics(records.prefix, records.topic, records.routes))
        ledger = Ledger(self._known.flush_lsn)
        spool, prepared = _open_spool(config, systemid, slot)
        commits = positions = None
        if isinstance(sink, TransactionalSink):
            commits = Commits(sink, ledger, encoder, server)
        elif sink.has_topic(offsets.topic):
            positions = Positions(sink, offsets, server.slot_lsn, server.timeline)
        return Session(
            source=source,
            sink=sink,
            assembler=Assembler(
                spool, prepared, config.transactions.memory_mb << 20, config.source.two_phase
            ),
            encoder=encoder,
            ledger=ledger,
            spool=spool,
            metrics=self._metrics,
            confirmations=Confirmations(source, ledger, positions, await _status_interval_s(catalog, config)),
            commits=commits,
            supply=Supply(encoder, catalog, sink, self._registry),
            look=Look(catalog, config.source.slot, self._publications, prepared, source.wake),
        )

    def _make_sink(self, offsets: Offsets) -> Sink:
        if self._config.sink.delivery == "at_least_once":
            return Sink(self._refusals.sink)
        return TransactionalSink(self._refusals.sink, offsets)

    async def _require_topics(self, sink: Sink) -> None:
        """The topics that every relay has, whatever its tables."""
        topics = Topics(self._config.records.prefix, self._config.records.topic)
        await sink.require_topic(topics.schema, "schemas")
        if self._config.records.transaction_topic:
            await sink.require_topic(topics.transaction, "transactions")
        if self._config.errors.on_record == "dead_letter":
            await sink.require_topic(topics.dead_letter, "dead letters")

    async def _stream(self, session: Session) -> None:
        """Run a session; whatever ends it, keep what it has learnt of the position."""
        self._session_now = session
        if self._advise is not None and self._advice is None:
            # Only now: what merely waited for a server to come back is no finding.
            self._advice = optional(self._advise(self._config), "the advice of a check")
        self._observer.begins(session)
        clock, grace_s = asyncio.get_running_loop(), self._config.sink.shutdown_grace_s
        ends = None
        try:
            await session.run(self._stop, self._observer)
            ends = clock.time() + grace_s
            if not await session.finish(grace_s):
                _log.warning("stopping before Kafka has acknowledged everything; the rest will be sent again")
        except Exception as error:
            if not isinstance(error, KafkaUnavailable):
                # A stop has one grace, whatever comes between.
                left_s = math.inf if ends is None else max(0.0, ends - clock.time())
                await self._settle(session, error, left_s)
            if isinstance(error, SpoolError):
                self._observer.spool_failed(session)
            raise
        finally:
            await session.close()
            self._session_now = None
            self._observer.publish(session)
            if session.ledger.flush_lsn > self._known.flush_lsn:
                self._backoff.reset()
            self._known.moved(session.ledger.flush_lsn, session.confirmations.confirmed_lsn)
            # What is open there belongs to this session: the next one's producer aborts it.
            self._sink_is_spent = isinstance(self._sink, TransactionalSink)

    async def _settle(self, session: Session, error: Exception, most_s: float) -> None:
        """Save what is whole before a session ends in an error, so that little is sent again."""
        with contextlib.suppress(PgrelayError):
            if verdict(error) is Verdict.STOP:
                await session.finish(min(self._config.sink.shutdown_grace_s, most_s))
            else:
                await session.settle(min(_SETTLE_S, most_s))


def _open_spool(config: Config, systemid: str, slot: Slot) -> tuple[Spool, PreparedStore]:
    """Whoever has the slot owns its directory too, so what an earlier run left in it is nobody's."""
    spool = Spool(slot_directory(config.transactions.spool_dir, systemid, config.source.slot))
    spool.open()
    spool.remove_stale()
    prepared = PreparedStore(spool)
    prepared.load()
    prepared.purge(slot.restart_lsn or 0)
    return spool, prepared


def _end_of(error: Exception) -> End:
    """Which end is the trouble, for the metrics."""
    if isinstance(error, RegistryUnavailable):
        return "registry"
    if isinstance(error, SpoolError):
        return "spool"
    return "kafka" if isinstance(error, KafkaUnavailable) else "postgres"


async def _status_interval_s(catalog: Catalog, config: Config) -> float:
    """Seconds between status updates: what is configured, and often enough for the server's patience."""
    patience_s = await catalog.wal_sender_timeout_s()
    return min(config.source.status_interval_s, patience_s / 3 if patience_s else float("inf"))


def _summary(config: Config) -> dict[str, str]:
    return {
        "slot": config.source.slot,
        "kafka": str(config.sink.kafka["bootstrap.servers"]),
        "http": config.http.listen or "off",
    }
