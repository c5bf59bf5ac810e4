"""Checks before a stream begins, of the slot, the publications, the topics and the connections."""

import structlog

from pgrelay.config import Config, SourceConfig
from pgrelay.errors import RESET_CURE, GapError, SetupError, SourceUnavailable
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import Source
from pgrelay.postgres.wal_level import wal_level
from pgrelay.relay.gap_checks import standby_error
from pgrelay.relay.publications import Publications, warn_of_refused_changes
from pgrelay.relay.record_options import selection_of, topics_of
from pgrelay.relay.resume_point import ResumePoint

_log = structlog.get_logger(__name__)


async def prepare(
    catalog: Catalog,
    config: Config,
    publications: Publications,
    resume_point: ResumePoint,
    slot: Slot | None,
) -> None:
    """Create the publication if the configuration says so, and check what the slot and the topics need.

    `slot` is the slot as it was found, None if there is none. Raises SetupError if something is missing or
    wrong, GapError if the slot is gone.
    """
    if slot is None and resume_point.system is not None:
        raise GapError(
            f"slot {config.source.slot} is gone: changes since {format_lsn(resume_point.confirmed_lsn)} "
            f"never reach the topics; {RESET_CURE}"
        )
    if slot is not None:
        check_slot_kind(slot, config.source.slot, catalog.database)
    elif config.source.create:
        await _require_logical_wal(catalog)
    # In a transaction, so that refused tables leave no unused publication behind.
    async with catalog.transaction():
        created = await publications.require(catalog, slot)
        await _check_topics(catalog, config)
    if created is not None:
        await warn_of_refused_changes(catalog, created)
    await publications.check(catalog, resume_point.flush_lsn)


async def _check_topics(catalog: Catalog, config: Config) -> None:
    """Refuse published tables that would share a topic by accident, before any of their rows comes.

    Raises SetupError. Tables that can't be listed now, or are published later, are checked when their first
    row comes.
    """
    topics, selection = topics_of(config), selection_of(config)
    for _, schema, table in await catalog.published_tables(config.source.publications) or ():
        if selection.is_relayed(f"{schema}.{table}"):
            topics.claim(schema, table)


async def _require_logical_wal(catalog: Catalog) -> None:
    """Refuse a server on which no slot can be created. Raises SetupError."""
    level = await wal_level(catalog)
    if not level.suffices:
        raise SetupError(f"Postgres can't decode its WAL, since {level}; {level.cure}")


def slot_creation_waits_for(standby: bool) -> str:
    """What the server waits for when it creates a slot, with the cure if that takes long."""
    if standby:
        return (
            "the transactions that run on the primary now, which its pg_stat_activity and "
            "pg_prepared_xacts have, and for it to log that they have ended; after that, "
            "SELECT pg_log_standby_snapshot() there hastens it"
        )
    return "the transactions that run now; pg_stat_activity and pg_prepared_xacts have them"


async def create_slot(catalog: Catalog, config: SourceConfig, waits_for: str) -> Slot:
    """Create the slot if the configuration says so, which takes until what the server `waits_for` is over.

    Raises SetupError.
    """
    if not config.create:
        raise SetupError(
            f"source.slot: {config.slot} does not exist; create it with SELECT "
            f"pg_create_logical_replication_slot('{config.slot}', 'pgoutput'), or set source.create: true"
        )
    _log.info("creating the slot", slot=config.slot, waits_for=waits_for)
    await catalog.create_slot(config.slot)
    slot = await catalog.slot(config.slot)
    if slot is None:
        raise GapError(f"slot {config.slot} was dropped as soon as it was created; who else uses it?")
    return slot


def check_not_synced(slot: Slot, name: str) -> None:
    """Refuse, on a standby, a slot that is synchronised from the primary. Raises SourceUnavailable."""
    if slot.synced:
        raise standby_error(f"where slot {name} is synchronised from its primary")


async def check_same_server(catalog: Catalog, source: Source) -> None:
    """Raises SourceUnavailable if the two connections lead to different servers."""
    if await catalog.server_started_us() != source.server_started_us:
        raise SourceUnavailable(
            "source.dsn leads to two servers, one for the stream and one for queries; name one host, or "
            "add target_session_attrs=read-write"
        )


def check_slot_kind(slot: Slot, name: str, database: str) -> None:
    """Raises SetupError if the slot is of a kind that we can't read, or of another database."""
    if slot.slot_type != "logical":
        raise SetupError(f"source.slot: {name} is a physical slot; choose another name")
    if slot.plugin != "pgoutput":
        raise SetupError(f"source.slot: {name} uses plugin {slot.plugin}, not pgoutput; choose another name")
    if slot.database != database:
        raise SetupError(
            f"source.slot: {name} belongs to database {slot.database}, source.dsn names {database}; "
            "correct one of them"
        )


def check_not_lost(slot: Slot, name: str) -> None:
    """Raises GapError if the server has invalidated the slot."""
    if (why := slot.lost_because) is not None:
        raise GapError(f"slot {name} is lost, {why}; {RESET_CURE}")


def check_not_active(slot: Slot, name: str) -> None:
    """Raises SetupError if somebody is reading the slot."""
    if slot.active_pid is not None:
        raise SetupError(f"slot {name} is in use by PID {slot.active_pid}; stop that relay first")
