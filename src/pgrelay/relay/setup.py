"""What must be true before a stream begins: slot and publications, and that the cluster is the same."""

import structlog

from pgrelay.config import Config
from pgrelay.config import Source as SourceConfig
from pgrelay.encode.topics import Topics
from pgrelay.errors import BEGIN_ANEW, GapError, SetupError, SourceUnavailable
from pgrelay.kafka.offsets import Delivered
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog, Slot
from pgrelay.postgres.source import Source, System
from pgrelay.relay.publications import Publications
from pgrelay.relay.recall import behind, check_history, unpromoted
from pgrelay.relay.records import record_options

_log = structlog.get_logger(__name__)


class Position:
    """What this process knows of the stream: nothing at first, then the cluster and how far it has come."""

    def __init__(self) -> None:
        self.system: System | None = None
        self.flush_lsn = 0
        self.confirmed_lsn = 0
        self._standby = False
        self._walsender_pid: int | None = None
        self._taken_over = False

    @property
    def known(self) -> Delivered | None:
        """What this process knows to be in Kafka, whatever Kafka says; None before the first stream."""
        return None if self.system is None else Delivered(self.confirmed_lsn)

    def check_cluster(self, system: System, standby: bool) -> None:
        """Refuse to go on with another cluster, or with this one as it was. Raises GapError.

        `standby`: the server is one. SourceUnavailable where it is still to become what we streamed from.
        """
        if self.system is None:
            return
        if system.systemid != self.system.systemid:
            raise GapError(
                f"source.dsn leads to cluster {system.systemid} now, it was {self.system.systemid}: "
                f"point it at the old one, or {BEGIN_ANEW}"
            )
        if standby and not self._standby:
            raise unpromoted("and we have streamed from its primary")
        if standby and self.flush_lsn > system.wal_end:
            raise behind(self.flush_lsn)
        if self.flush_lsn > system.wal_end:
            raise GapError(
                f"the server's WAL ends at {format_lsn(system.wal_end)}, before "
                f"{format_lsn(self.flush_lsn)}, which we have relayed: it was restored from a backup or "
                f"lost WAL; {BEGIN_ANEW}"
            )

    async def check_history(self, system: System, source: Source) -> None:
        """Refuse a standby that was promoted before it had all that we have relayed. Raises GapError.

        A standby that we read from goes to another timeline under our eyes, and its slots are its own.
        """
        if self.system is None or self._standby or self.system.timeline == system.timeline:
            return
        left_at = await source.left_at(self.system.timeline, system.timeline)
        check_history(self.system.timeline, self.flush_lsn, left_at)

    def check_slot(self, slot: Slot, name: str) -> None:
        """Refuse to go on where nobody can. Raises GapError."""
        if (why := slot.lost_because) is not None:
            raise GapError(f"slot {name} is lost, {why}: {BEGIN_ANEW}")

    def seen(self, slot: Slot) -> None:
        """Take in who has the slot now."""
        if slot.active_pid not in (None, self._walsender_pid):
            self._taken_over = True

    def leaves_open(self, slot: Slot) -> bool:
        """Whether someone else may have moved the slot: what was delivered by then, Kafka alone can tell."""
        moved = (slot.confirmed_flush_lsn or 0) > self.confirmed_lsn
        return self.system is None or self._taken_over or moved

    def check_unmoved(self, slot: Slot, name: str) -> None:
        """Where Kafka keeps no positions: refuse to go on where the slot skips changes. Raises GapError."""
        if self.system is None or self._taken_over or slot.confirmed_flush_lsn is None:
            # By another relay, as far as anybody can tell, which moved it as it should.
            return
        if slot.confirmed_flush_lsn > self.confirmed_lsn:
            raise GapError(
                f"slot {name} was moved to {format_lsn(slot.confirmed_flush_lsn)} by someone else, we had "
                f"confirmed {format_lsn(self.confirmed_lsn)}: changes between were skipped; {BEGIN_ANEW}"
            )

    def started(self, system: System, slot: Slot, walsender_pid: int, standby: bool) -> None:
        """The slot is ours. It was not before the first time, so only now does its position mean anything.

        `standby`: the server is one.
        """
        self.moved(slot.confirmed_flush_lsn or 0, slot.confirmed_flush_lsn or 0)
        self.system = system
        self._standby = standby
        self._walsender_pid = walsender_pid
        self._taken_over = False

    def moved(self, flush_lsn: int, confirmed_lsn: int) -> None:
        self.flush_lsn = max(self.flush_lsn, flush_lsn)
        self.confirmed_lsn = max(self.confirmed_lsn, confirmed_lsn)


async def prepare(
    catalog: Catalog, config: SourceConfig, publications: Publications, position: Position
) -> Slot:
    """Make the publication and the slot where the configuration says so, and return the slot.

    Raises SetupError where something is missing or not what it should be, GapError where the slot is gone.
    """
    slot = await catalog.slot(config.slot)
    if slot is None and position.system is not None:
        raise GapError(
            f"slot {config.slot} is gone: changes since {format_lsn(position.confirmed_lsn)} are lost to it; "
            f"{BEGIN_ANEW}"
        )
    if slot is not None:
        check_kind(slot, config.slot, catalog.database)
    await publications.require(catalog, slot)
    await publications.check(catalog, position.flush_lsn)
    return slot or await _make_slot(catalog, config)


async def check_topics(catalog: Catalog, config: Config) -> None:
    """Refuse published tables that would share a topic by accident, before a row of theirs comes.

    Raises SetupError. Tables that can't be looked at now, or are published later, are looked at when their
    first row comes.
    """
    # What the server is has no part in topics.
    records = record_options(config, catalog.database, systemid="", server_encoding="")
    topics = Topics(records.prefix, records.topic, records.routes)
    for schema, table in await catalog.published_tables(config.source.publications) or ():
        if records.selection.takes(f"{schema}.{table}"):
            topics.of_table(schema, table)


async def _make_slot(catalog: Catalog, config: SourceConfig) -> Slot:
    if not config.create:
        raise SetupError(
            f"source.slot: {config.slot} does not exist; create it with SELECT "
            f"pg_create_logical_replication_slot('{config.slot}', 'pgoutput'), or set source.create: true"
        )
    wal_level = await catalog.setting("wal_level")
    if wal_level != "logical":
        raise SetupError(
            f"Postgres runs with wal_level = {wal_level}: ALTER SYSTEM SET wal_level = logical, and restart"
        )
    _log.info("creating the slot; the server waits for transactions that run now", slot=config.slot)
    await catalog.create_slot(config.slot)
    slot = await catalog.slot(config.slot)
    if slot is None:
        raise GapError(f"slot {config.slot} was dropped as soon as it was created; who else uses it?")
    return slot


def check_own(slot: Slot, name: str) -> None:
    """Called on a standby. Raises SourceUnavailable where its slot is a primary's, which it follows."""
    if slot.synced:
        raise unpromoted(f"and slot {name} there is kept for when its primary has gone")


async def check_same(catalog: Catalog, source: Source) -> None:
    """Raises SourceUnavailable where one connection leads to another server than the other."""
    if await catalog.server_started_us() != source.server_started_us:
        raise SourceUnavailable(
            "source.dsn leads to two servers, one for the stream and one for questions: name one host, or "
            "add target_session_attrs=read-write"
        )


def check_kind(slot: Slot, name: str, database: str) -> None:
    """Raises SetupError where the slot is none that we could read."""
    if slot.slot_type != "logical":
        raise SetupError(f"source.slot: {name} is a physical slot; choose another name")
    if slot.plugin != "pgoutput":
        raise SetupError(f"source.slot: {name} uses plugin {slot.plugin}, not pgoutput; choose another name")
    if slot.database != database:
        raise SetupError(
            f"source.slot: {name} belongs to database {slot.database}, source.dsn names {database}; "
            "correct one of them"
        )


def check_free(slot: Slot, name: str) -> None:
    """Raises SetupError where a relay runs."""
    if slot.active_pid is not None:
        raise SetupError(f"slot {name} is in use by PID {slot.active_pid}: stop that relay first")
