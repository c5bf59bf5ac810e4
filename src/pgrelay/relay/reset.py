"""`pgrelay reset`: drop the slot and delete its position, so that the next run starts over.

This is the way out of a gap. What is written between the end of the old slot and the creation of the new one
is relayed by neither, so the tables have to be copied. What was prepared under the old slot is deleted, since
its commit will never come.

With `keep_slot`, only the position is deleted: for a slot that was moved by someone who relayed what it
passed. What is prepared there may still be committed, so it stays on disk.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from pgrelay.assembly.prepared import emptying
from pgrelay.assembly.spool_base import require_own_base
from pgrelay.config import Config
from pgrelay.encode.records import Record
from pgrelay.errors import GapError, KafkaUnavailable, PgrelayError, SetupError
from pgrelay.kafka.offsets import Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import Source
from pgrelay.relay.server import Server
from pgrelay.relay.setup import check_not_active, check_same_server, check_slot_kind

_PUBLISH_TIMEOUT_S: Final = 30.0


async def reset(config: Config, *, keep_slot: bool = False) -> str:
    """Delete the slot on both sides, and what is kept of it here; returns a summary of what was there.

    `keep_slot`: the next run goes on where the slot stands. Raises SetupError if a relay runs, if there is no
    slot to keep, if the slot is synchronised from a primary, or if the spool could be another account's;
    SourceUnavailable if source.dsn leads to two servers; SpoolError, before anything is dropped, if a relay
    uses the spool, which may be one of another server's slot; KafkaUnavailable.
    """
    name = config.source.slot
    require_own_base(config.transactions.spool_dir)
    async with Catalog(config.source.dsn) as catalog, Source(config.source.dsn) as source:
        # Otherwise one server's slot would be dropped, and the files of another's deleted.
        await check_same_server(catalog, source)
        server = await Server.identify(config, catalog, source)
        slot = await _droppable_slot(server)
        if slot is None and keep_slot:
            raise SetupError(f"slot {name} does not exist, so it can't be kept; leave out --keep-slot")
        dropping = None if slot is None or keep_slot else name
        sink = Sink(config.sink)
        try:
            # Ask Kafka first: a dropped slot whose position remains is a gap.
            with _hint_slot_remains(dropping):
                stored = await _read_positions(sink, server)
            with nullcontext() if keep_slot else emptying(server.spool_directory):
                if dropping is not None:
                    await catalog.drop_slot(dropping)
                await _forget(sink, server.offsets, stored.tombstones, dropped=dropping is not None)
        finally:
            await sink.close()
    position = stored.describe_deletion(server.system.systemid)
    if keep_slot and slot is not None:
        return (
            f"slot {name} stays at {format_lsn(slot.confirmed_flush_lsn or 0)}, and {position}; run pgrelay"
        )
    dropped = "dropped" if slot is not None else "was gone already"
    return f"slot {name} {dropped}, and {position}; run pgrelay, and copy the tables once it streams"


@dataclass(frozen=True, slots=True)
class _StoredPositions:
    """The slot's positions in Kafka. `tombstones` delete them; `denied`: why they can't be read."""

    tombstones: Sequence[Record] = ()
    denied: str | None = None

    def describe_deletion(self, systemid: str) -> str:
        """What became of them once they are deleted; our cluster is `systemid`."""
        if self.denied is not None:
            return f"any position of it in Kafka stays, since runs don't read it either ({self.denied})"
        if not self.tombstones:
            return "Kafka had no position of it"
        clusters = {json.loads(key or b"{}")["systemid"] for _, key, *_ in self.tombstones}
        others = ", ".join(sorted(clusters - {systemid}))
        return "its position in Kafka is forgotten" + (f", also that of cluster {others}" if others else "")


async def _read_positions(sink: Sink, server: Server) -> _StoredPositions:
    """Connect to Kafka, and read the positions. Raises as `Offsets.read`.

    At least once, it is no error if we may not read them, since runs then do without them.
    """
    await sink.topics.load()
    offsets = server.offsets
    if offsets.topic not in sink.topics:
        return _StoredPositions()
    try:
        return _StoredPositions(await offsets.tombstones())
    except SetupError as denied:
        if server.config.sink.delivery == "exactly_once":
            raise
        return _StoredPositions(denied=str(denied))


@contextmanager
def _hint_slot_remains(dropping: str | None) -> Iterator[None]:
    """If Kafka fails before the slot `dropping` is dropped, say in the error that the slot remains."""
    try:
        yield
    except KafkaUnavailable as error:
        if dropping is None:
            raise
        raise KafkaUnavailable(
            f"{error}; nothing was changed: run it again once that is over, and, if Postgres must be rid of "
            f"the slot's WAL before that, SELECT pg_drop_replication_slot('{dropping}') now"
        ) from error


async def _droppable_slot(server: Server) -> Slot | None:
    """The slot, None if there is none. Raises SetupError if we must not drop it, or somebody reads it."""
    name = server.config.source.slot
    slot = await server.catalog.slot(name)
    if slot is not None:
        check_slot_kind(slot, name, server.catalog.database)
        check_not_active(slot, name)
        if slot.synced and server.standby:
            raise SetupError(
                f"source.dsn leads to a standby, where slot {name} is synchronised from its primary; "
                "point source.dsn at the primary"
            )
    return slot


async def _forget(sink: Sink, offsets: Offsets, tombstones: Sequence[Record], dropped: bool) -> None:
    """Delete the positions of a slot, which has been `dropped` or not.

    Raises KafkaUnavailable, or SetupError if we may not.
    """
    slot = offsets.identity.slot
    begun = f"slot {slot} is dropped, but its" if dropped else f"slot {slot}'s"
    unforgotten = f"{begun} position in topic {offsets.topic} is not forgotten"
    again = f"run pgrelay reset again, or the next run may end with exit code {GapError.exit_code}"
    try:
        async with asyncio.timeout(_PUBLISH_TIMEOUT_S):
            await sink.publish(tombstones)
    except TimeoutError:
        reason = (
            f"no acknowledgement within {_PUBLISH_TIMEOUT_S:g} s ({sink.failures.problem or 'no answer'})"
        )
        raise KafkaUnavailable(f"{unforgotten}: {reason}; once the brokers answer, {again}") from None
    except PgrelayError as refused:
        raise type(refused)(f"{unforgotten}: {refused}; then {again}") from refused
