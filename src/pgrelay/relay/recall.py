"""What Kafka remembers of earlier runs is held against the server before it is believed.

The order of the questions matters, since another relay may have the slot meanwhile: the slot is asked for its
position before Kafka is, and the server for its WAL's end afterwards.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from pgrelay.config import Config
from pgrelay.encode.topics import Topics
from pgrelay.errors import BEGIN_ANEW, GapError, PositionError, SetupError, StandbyNotReady
from pgrelay.kafka.offsets import Delivered, Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog, Slot
from pgrelay.postgres.source import Source, System

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """`slot_lsn` is what the slot's user had confirmed, `timeline` the primary's; None of a standby.

    `wal_end` asks for the end of WAL now, `left_at` where the server left an earlier timeline.
    """

    slot_lsn: int
    wal_end: Callable[[], Awaitable[int]]
    left_at: Callable[[int], Awaitable[int | None]]
    timeline: int | None

    async def check(self, delivered: Delivered) -> None:
        """Raises GapError where the position can't be true of this server and its slot.

        StandbyNotReady where it is a standby that has not come so far, be it again after a crash.
        """
        wal_end = await self.wal_end()
        if delivered.lsn > wal_end and self.timeline is None:
            raise behind(delivered.lsn)
        if delivered.lsn > wal_end:
            raise GapError(
                f"Kafka has everything up to {format_lsn(delivered.lsn)}, and the server's WAL ends at "
                f"{format_lsn(wal_end)}: it was restored from a backup, or lost WAL; {BEGIN_ANEW}"
            )
        if self.slot_lsn > delivered.lsn:
            raise GapError(
                f"the slot stands at {format_lsn(self.slot_lsn)}, and Kafka has everything up to "
                f"{format_lsn(delivered.lsn)}: the slot was moved or made anew, and changes between are "
                f"gone, unless whoever moved it relayed them (then: pgrelay reset --keep-slot); {BEGIN_ANEW}"
            )
        if self.timeline is not None and delivered.timeline not in (None, self.timeline):
            check_history(delivered.timeline, delivered.lsn, await self.left_at(delivered.timeline))


def behind(relayed_lsn: int) -> StandbyNotReady:
    """What it means that a standby has not what was relayed: after a crash it has to replay it again."""
    return StandbyNotReady(
        f"the standby has not come to {format_lsn(relayed_lsn)}, which we have relayed: waiting for it; if "
        f"it was restored from a backup, {BEGIN_ANEW}"
    )


def unpromoted(found: str) -> StandbyNotReady:
    """What it means that a standby is met in place of the primary. `found`: how that shows."""
    return StandbyNotReady(
        f"source.dsn leads to a standby, {found}: waiting for its promotion; where source.dsn names several "
        "hosts, add target_session_attrs=read-write"
    )


def check_history(timeline: int, relayed_lsn: int, left_at: int | None) -> None:
    """Refuse a standby that was promoted before it had all that was relayed. Raises GapError.

    Its WAL may have grown past that since, and what it has there is none of what was relayed. `left_at` is
    where it left the timeline on which that happened; None: it was never there.
    """
    if left_at is not None and relayed_lsn <= left_at:
        return
    place = "before" if left_at is None else f"at {format_lsn(left_at)}, before"
    raise GapError(
        f"the server left timeline {timeline} {place} {format_lsn(relayed_lsn)}, which we have relayed: the "
        f"standby that was promoted had not received it; {BEGIN_ANEW}"
    )


def server_of(config: Config, catalog: Catalog, system: System, slot: Slot, standby: bool) -> Server:
    """`standby`: the server is one."""

    async def left_at(timeline: int) -> int | None:
        # By a connection of its own: ours streams by the time that it is asked.
        async with Source(config.source.dsn) as source:
            return await source.left_at(timeline, system.timeline)

    timeline = None if standby else system.timeline
    return Server(slot.confirmed_flush_lsn or 0, catalog.wal_end, left_at, timeline)


def offsets_of(config: Config, systemid: str, database: str) -> Offsets:
    """Where the position of the configured slot is."""
    topic = Topics(config.records.prefix, config.records.topic).offsets
    return Offsets(config.sink, topic, Identity(systemid, database, config.source.slot))


async def refuse_new_slot(sink: Sink, offsets: Offsets, standby: bool) -> None:
    """Called where there is no slot. Raises GapError where Kafka has a position: a new slot hides a gap.

    StandbyNotReady where the position is of a primary, and the server a standby. PositionError where that
    can't be known.
    """
    await sink.connect()
    try:
        position = await delivered(sink, offsets)
    except PositionError:
        raise
    except SetupError:
        # Whoever must know it asks again; others do without.
        return
    if position is not None and standby and position.timeline is not None:
        raise unpromoted(f"without slot {offsets.identity.slot} that its primary had")
    if position is not None:
        raise GapError(
            f"slot {offsets.identity.slot} is gone, and Kafka has everything up to "
            f"{format_lsn(position.lsn)}: changes since are lost to it; {BEGIN_ANEW}"
        )


async def recall(sink: Sink, offsets: Offsets, server: Server, known: Delivered | None) -> bool:
    """At least once: hold what Kafka has against the server. Raises GapError, PositionError.

    `known` is what this process knows to be there. Where Kafka does not let us keep or read positions we do
    without, say so, and return false.
    """
    try:
        # Ahead of the topic's making: a new one need not be read.
        position = await delivered(sink, offsets)
        await sink.require_topic(offsets.topic, lasting=True, compacted=True)
    except PositionError:
        raise
    except SetupError as error:
        _log.warning(
            "no position is known to Kafka: a slot that is lost while pgrelay is down will go unnoticed",
            reason=str(error),
        )
        return False
    if known is not None and (position is None or position.lsn < known.lsn):
        position = known
    if position is not None:
        await server.check(position)
    return True


async def delivered(sink: Sink, offsets: Offsets) -> Delivered | None:
    """The position, of a sink that is connected; None where Kafka has none. Raises as `Offsets.read`."""
    return await asyncio.to_thread(offsets.read) if sink.has_topic(offsets.topic) else None
