"""How a session begins: what must exist and match at both ends, checked in an order that loses nothing.

Theory of operation. Whatever may refuse a start is checked before a slot is created, because a new slot that
nobody reads holds back WAL for ever. A slot is created only before the first stream of the process, and is
looked up again after every wait. The stream begins last, because the server drops a silent client. Only from
then on is the slot ours: if it has moved since it was checked against Kafka's position, it is checked again.
"""

import contextlib

import structlog

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.spool import Spool
from pgrelay.assembly.spool_base import base_directory, require_own_base
from pgrelay.config import Config
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.hidden import HiddenColumns
from pgrelay.errors import (
    KafkaUnavailable,
    RegistryUnavailable,
    SpoolError,
    StreamingFailed,
    TransientError,
)
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.kafka.registry import Registry
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.lsn import format_lsn
from pgrelay.metrics import Metrics
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.negotiation import stream_options
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnceMode
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.exactly_once import ExactlyOnceMode
from pgrelay.relay.guarantee import DeliveryMode
from pgrelay.relay.observer import Observer
from pgrelay.relay.publications import Publications
from pgrelay.relay.record_options import record_options, topics_of
from pgrelay.relay.refusals import Refusals
from pgrelay.relay.renames import RenameAttempt, Renames
from pgrelay.relay.resume_point import ResumePoint
from pgrelay.relay.server import Server
from pgrelay.relay.server_poll import ServerPoll
from pgrelay.relay.session import Session
from pgrelay.relay.setup import (
    check_not_lost,
    check_not_synced,
    check_same_server,
    create_slot,
    prepare,
    slot_creation_waits_for,
)
from pgrelay.relay.spooling import open_spool
from pgrelay.relay.stored_position import check_may_create_slot
from pgrelay.relay.supply import Supply

_log = structlog.get_logger(__name__)


class SessionFactory:
    """Opens the sessions of one process, and keeps what outlives them: the producer and the registry client.

    `resume_point` is where the next one begins.
    """

    def __init__(self, config: Config, metrics: Metrics, observer: Observer, refusals: Refusals) -> None:
        self.resume_point = ResumePoint()
        self._config = config
        self._metrics = metrics
        self._observer = observer
        self._refusals = refusals
        self._publications = Publications(config.source)
        self._mode: DeliveryMode | None = None
        self._identity: Identity | None = None
        self._registry: Registry | None = None
        self._warned: set[str] = set()
        self._tried_renames: dict[int, RenameAttempt] = {}
        self._hidden = HiddenColumns()
        # By this process.
        self._created_slot = False
        # The last session has left a producer that the next one can't use.
        self._needs_new_sink = False
        # Whether `streaming: auto` asks for transactions before their commit.
        self._allow_streaming = True

    async def open(self, catalog: Catalog, source: Source) -> Session:
        """Open a session and begin its stream. Raises whatever stands in the way."""
        config = self._config
        await check_same_server(catalog, source)
        # Published now, since it stays true whatever the start waits for from here on.
        self._observer.on_slot_wal(await catalog.slot_wal(config.source.slot))
        server = await Server.identify(config, catalog, source)
        self.resume_point.check_server(server.system, server.standby)
        # Before a slot is created: a refusal here must not leave one that nobody reads.
        require_own_base(config.transactions.spool_dir)
        mode = await self._mode_for(server.offsets)
        if self._registry is None and config.records.format == "avro":
            self._registry = Registry(config.records.schema_registry)
        before = await self._make_ready(server, mode)
        self.resume_point.follow_slot(before)
        options = stream_options(config.source, source.server_version, allow_streaming=self._allow_streaming)
        self._observer.on_wait("Postgres to begin the stream")
        await source.start(config.source.slot, self.resume_point.flush_lsn, options)
        # The slot is ours only now. Until here another relay, or anyone else, may have moved it.
        slot = await catalog.slot(config.source.slot) or before
        if slot.confirmed_flush_lsn != before.confirmed_flush_lsn:
            self.resume_point.check_not_past(slot)
            await mode.check_against_kafka(server, slot)
        self.resume_point.adopt_slot(server.system, slot, source.walsender_pid, server.standby)
        self._warn_of_two_phase(slot)
        session = await self._make_session(server, source, mode, slot)
        if not self._observer.retrying:
            begins_at = format_lsn(self.resume_point.flush_lsn)
            _log.info("streaming", slot=config.source.slot, start=begins_at, **dict(options.pairs()))
        return session

    def on_end(self, session: Session) -> None:
        """Keep what a session has learnt about the position, whatever ended it."""
        self.resume_point.advance(
            session.ledger.flush_lsn, session.confirmations.confirmed_lsn, session.guarantee.relayed_lsn
        )
        self._needs_new_sink = session.guarantee.sink_per_session

    async def adapt_to(self, error: TransientError) -> None:
        """Have the next session do without what caused this error."""
        auto = self._config.source.streaming == "auto"
        if isinstance(error, StreamingFailed) and auto and self._allow_streaming:
            self._allow_streaming = False
            _log.warning("from here on, this run takes transactions after their commit only")
        if self._needs_new_sink or isinstance(error, KafkaUnavailable):
            await self.close_sink(error)

    async def close_sink(self, after: Exception | None = None) -> None:
        """Close the producer, if there is one. The session refers to it, so it must have ended.

        `after`: the error that made it necessary.
        """
        mode, self._mode, self._needs_new_sink = self._mode, None, False
        if mode is not None:
            self._metrics.inflight_records = 0
            await mode.sink.close(after)

    async def close(self) -> None:
        """Close what outlives the sessions. Warns of a slot that would be left behind unread."""
        await self.close_sink()
        if self._registry is not None:
            await self._registry.close()
        slot = self._config.source.slot
        if self._created_slot and self.resume_point.system is None:
            _log.warning(
                "a slot was created, and nothing was relayed: Postgres keeps WAL until somebody reads it",
                slot=slot,
                cure=f"run pgrelay again, or SELECT pg_drop_replication_slot('{slot}')",
            )

    async def _make_ready(self, server: Server, mode: DeliveryMode) -> Slot:
        """Check that both ends exist and match. Returns the slot, created if it was missing."""
        config, catalog, sink = self._config, server.catalog, mode.sink
        first = self.resume_point.system is None
        found = await catalog.slot(config.source.slot)
        if server.standby and found is not None:
            check_not_synced(found, config.source.slot)
        if first and found is None:
            # If Kafka is down, create the slot all the same, so that nothing is missed meanwhile; Kafka is
            # checked below. If Kafka refuses something, such as a topic, leave no slot that nobody reads.
            self._observer.on_wait("Kafka")
            with contextlib.suppress(KafkaUnavailable):
                await check_may_create_slot(sink, server)
                if config.source.create:
                    await self._require_topics(sink)
            await self._check_spool_and_registry(server)
            # Kafka may have taken its time, and another relay may have created the slot.
            found = await catalog.slot(config.source.slot)
        self._observer.on_wait("Postgres")
        await prepare(catalog, config, self._publications, self.resume_point, found)
        slot = found
        if slot is None:
            waits_for = slot_creation_waits_for(server.standby)
            self._observer.on_slot_creation(config.source.slot, waits_for)
            slot = await create_slot(catalog, config.source, waits_for)
            self._created_slot = True
        check_not_lost(slot, config.source.slot)
        self.resume_point.note_reader(slot)
        # Before the stream: we are silent while we wait here, and the server would drop it.
        self._observer.on_wait("Kafka")
        await sink.topics.load()
        await self._require_topics(sink)
        await mode.check_against_kafka(server, slot)
        if self._registry is not None:
            self._observer.on_wait("the schema registry")
            await self._registry.connect()
        return slot

    async def _check_spool_and_registry(self, server: Server) -> None:
        """Before anything is created, check what could refuse the start afterwards. Raises SetupError."""
        with contextlib.suppress(SpoolError):
            Spool(server.spool_directory).create()
        if self._registry is not None:
            with contextlib.suppress(RegistryUnavailable):
                await self._registry.connect()

    def _warn_of_two_phase(self, slot: Slot) -> None:
        """Warn if the slot has two-phase commit and the configuration does not ask for it."""
        if slot.two_phase and not self._config.source.two_phase:
            self._warn(
                "the slot has two-phase commit, though source.two_phase is false: prepared transactions wait "
                "in the spool, which must survive restarts",
                spool_dir=str(base_directory(self._config.transactions.spool_dir)),
            )

    def _warn(self, event: str, **facts: str) -> None:
        """Log each warning once, however many sessions meet it."""
        warning = f"{event} {facts}"
        if warning not in self._warned:
            self._warned.add(warning)
            _log.warning(event, **facts)

    async def _make_session(self, server: Server, source: Source, mode: DeliveryMode, slot: Slot) -> Session:
        """A session with its own state. The stream has begun."""
        config, catalog, systemid = self._config, server.catalog, server.system.systemid
        # Before the spool is opened: it stays open until the session closes it.
        status_interval_s = await _status_interval_s(catalog, config)
        two_phase = config.source.two_phase or slot.two_phase
        first_xid = await catalog.xid_after_prepared() if two_phase and not server.standby else None
        records = record_options(
            config, catalog, systemid, source.server_encoding, self._refusals.dead_letters
        )
        encoder = Encoder(records, topics_of(config), self._hidden)
        ledger = Ledger(self.resume_point.flush_lsn)
        spool, prepared = await open_spool(server.spool_directory, source, status_interval_s, first_xid)
        renames = Renames(encoder.session_relations, records.selection.is_relayed, self._tried_renames)
        assembler = Assembler(spool, prepared, config.transactions.memory_mb << 20, two_phase)
        assembler.note_delivered(self.resume_point.delivered_lsn)
        guarantee = mode.guarantee(server, slot, ledger, assembler, encoder)
        return Session(
            source=source,
            sink=mode.sink,
            assembler=assembler,
            encoder=encoder,
            ledger=ledger,
            metrics=self._metrics,
            confirmations=Confirmations(source, ledger, guarantee, status_interval_s),
            guarantee=guarantee,
            serial_until=self._refusals.serial_until,
            supply=Supply(encoder, catalog, mode.sink, self._registry),
            server_poll=ServerPoll(
                catalog, config.source.slot, self._publications, prepared, renames, source.wake
            ),
        )

    async def _mode_for(self, offsets: Offsets) -> DeliveryMode:
        """The mode that earlier tries have left, or a new one if they found another cluster."""
        if offsets.identity != self._identity:
            await self.close_sink()
        self._identity = offsets.identity
        self._mode = self._mode or self._make_mode(offsets)
        return self._mode

    def _make_mode(self, offsets: Offsets) -> DeliveryMode:
        """The configured delivery mode, with a new sink."""
        sink = self._refusals.sink_config
        if sink.delivery == "at_least_once":
            return AtLeastOnceMode(Sink(sink), self.resume_point, self._warn)
        return ExactlyOnceMode(TransactionalSink(sink, offsets), self.resume_point)

    async def _require_topics(self, sink: Sink) -> None:
        """Require the topics that every relay has, whatever its tables."""
        topics = topics_of(self._config)
        await sink.topics.require(topics.schema, "schemas")
        if self._config.records.transaction_topic:
            await sink.topics.require(topics.transaction, "transactions")
        if self._config.errors.on_record == "dead_letter":
            await sink.topics.require(topics.dead_letter, "dead letters")


async def _status_interval_s(catalog: Catalog, config: Config) -> float:
    """Seconds between status updates: as configured, but at most a third of wal_sender_timeout."""
    timeout_s = await catalog.wal_sender_timeout_s()
    return min(config.source.status_interval_s, timeout_s / 3 if timeout_s else float("inf"))
