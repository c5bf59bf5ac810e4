"""`pgrelay reset`: drop the slot and delete its position, so that the next run starts over.

This is the way out of a gap. Neither the old slot nor the new one relays what was written between them, so
the tables have to be copied. No commit can ask for what was prepared under the old slot: it is deleted.

With `keep_slot`, only the position is deleted: for a slot that someone else moved, relaying what it passed.
What is prepared there may still be committed, so it stays on disk.
"""

import asyncio
import json
from typing import Final

from pgrelay.assembly.prepared import remove_all
from pgrelay.assembly.spool import slot_directory
from pgrelay.assembly.spool_base import require_own_base
from pgrelay.config import Config
from pgrelay.errors import GapError, KafkaUnavailable, SetupError
from pgrelay.kafka.offsets import Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog, Slot
from pgrelay.postgres.source import Source
from pgrelay.relay.gap_checks import offsets_of
from pgrelay.relay.setup import check_free, check_kind, check_same

_PATIENCE_S: Final = 30.0


async def reset(config: Config, *, keep_slot: bool = False) -> str:
    """Delete the slot on both sides, and what is kept of it here; returns a summary of what was there.

    `keep_slot`: the next run goes on where the slot stands. Raises SetupError if a relay runs, if there is no
    slot to keep, if the slot is synchronised from a primary, or if the spool could be another account's;
    SourceUnavailable if source.dsn leads to two servers; KafkaUnavailable.
    """
    name = config.source.slot
    require_own_base(config.transactions.spool_dir)
    async with Catalog(config.source.dsn) as catalog, Source(config.source.dsn) as source:
        # Otherwise one server's slot would be dropped, and the files of another's deleted.
        await check_same(catalog, source)
        slot = await _ours(catalog, name)
        if slot is None and keep_slot:
            raise SetupError(f"slot {name} does not exist, so it can't be kept; leave out --keep-slot")
        systemid = (await source.identify()).systemid
        offsets = offsets_of(config, systemid, catalog.database)
        sink = Sink(config.sink)
        try:
            # Reach Kafka first: a slot that is gone while its position is not is a gap.
            await _reach(sink, None if slot is None or keep_slot else name)
            if slot is not None and not keep_slot:
                await catalog.drop_slot(name)
            forgotten = await _forget(sink, offsets)
        finally:
            await sink.close()
    position = _told(forgotten, systemid)
    if keep_slot and slot is not None:
        return (
            f"slot {name} stays at {format_lsn(slot.confirmed_flush_lsn or 0)}, and {position}; run pgrelay"
        )
    remove_all(slot_directory(config.transactions.spool_dir, systemid, name))
    dropped = "dropped" if slot is not None else "was gone already"
    return f"slot {name} {dropped}, and {position}; run pgrelay, and copy the tables once it streams"


async def _reach(sink: Sink, dropping: str | None) -> None:
    """Connect to Kafka. `dropping`: the slot that is to be dropped after that, if there is one."""
    try:
        await sink.connect()
    except KafkaUnavailable as away:
        if dropping is None:
            raise
        raise KafkaUnavailable(
            f"{away}; nothing was changed: run it once Kafka answers, and, if Postgres must be rid of the "
            f"slot's WAL before that, SELECT pg_drop_replication_slot('{dropping}') now"
        ) from away


async def _ours(catalog: Catalog, name: str) -> Slot | None:
    """The slot, None if there is none. Raises SetupError if it is not ours to drop, or somebody reads it."""
    slot = await catalog.slot(name)
    if slot is not None:
        check_kind(slot, name, catalog.database)
        check_free(slot, name)
        if slot.synced and await catalog.in_recovery():
            raise SetupError(
                f"source.dsn leads to a standby, where slot {name} is synchronised from its primary; "
                "point source.dsn at the primary"
            )
    return slot


def _told(forgotten: set[str], systemid: str) -> str:
    """What became of the positions of these clusters; ours is `systemid`."""
    if not forgotten:
        return "Kafka had no position of it"
    others = ", ".join(sorted(forgotten - {systemid}))
    return "its position in Kafka is forgotten" + (f", also that of cluster {others}" if others else "")


async def _forget(sink: Sink, offsets: Offsets) -> set[str]:
    """Delete the slot's positions in Kafka. Returns the clusters that had one."""
    if offsets.topic not in sink.topics:
        return set()
    tombstones = await offsets.forgetting()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await sink.publish(tombstones)
    except TimeoutError:
        raise KafkaUnavailable(
            f"Kafka has not acknowledged within {_PATIENCE_S:g} s that the position in topic {offsets.topic} "
            f"is forgotten: {sink.problem or 'no answer'}; run pgrelay reset again once the brokers answer, "
            f"or the next run may end with exit code {GapError.exit_code}"
        ) from None
    return {json.loads(key or b"{}")["systemid"] for _, key, *_ in tombstones}
