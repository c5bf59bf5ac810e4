"""`pgrelay reset`: drop the slot and forget its position, so that the next run begins anew.

It is the way on after a gap. What was written between the old slot and the new one is relayed by neither,
which is why the tables have to be copied. No commit can ask for what the old slot had prepared.

With `keep_slot` the position alone is forgotten: for a slot that somebody else moved, and relayed what they
passed. What is prepared in it may be committed yet, so what is kept of that stays.
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
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from pgrelay.relay.gap_checks import offsets_of
from pgrelay.relay.setup import check_free, check_kind, check_same

_PATIENCE_S: Final = 30.0


async def reset(config: Config, *, keep_slot: bool = False) -> str:
    """Forget the slot on both sides, and what is kept of it here; says what was there.

    `keep_slot`: the next run goes on where the slot stands. Raises SetupError where a relay runs, where there
    is no slot to keep, where it is synchronised from a primary, and where what is kept here could be another
    account's; SourceUnavailable where source.dsn leads to two servers.
    """
    name = config.source.slot
    require_own_base(config.transactions.spool_dir)
    async with Catalog(config.source.dsn) as catalog, Source(config.source.dsn) as source:
        # Or one server's slot would go, and what is kept here of another's.
        await check_same(catalog, source)
        slot = await catalog.slot(name)
        if slot is not None:
            check_kind(slot, name, catalog.database)
            check_free(slot, name)
            if slot.synced and await catalog.in_recovery():
                raise SetupError(
                    f"source.dsn leads to a standby, and slot {name} there is its primary's: point it at that"
                )
        elif keep_slot:
            raise SetupError(f"slot {name} is gone, so there is none to keep: leave out --keep-slot")
        systemid = (await source.identify()).systemid
        offsets = offsets_of(config, systemid, catalog.database)
        sink = Sink(config.sink)
        try:
            # Both ends must be there: a slot that is gone and a position that is not is a gap.
            await sink.connect()
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


def _told(forgotten: set[str], systemid: str) -> str:
    """What became of the positions of these clusters, of which ours is `systemid`."""
    if not forgotten:
        return "Kafka had no position of it"
    others = ", ".join(sorted(forgotten - {systemid}))
    return "its position in Kafka is forgotten" + (f", also that of cluster {others}" if others else "")


async def _forget(sink: Sink, offsets: Offsets) -> set[str]:
    """The clusters whose positions of the slot Kafka had."""
    if offsets.topic not in sink.topics:
        return set()
    tombstones = await offsets.forgetting()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await sink.publish(tombstones)
    except TimeoutError:
        raise KafkaUnavailable(
            f"Kafka has not acknowledged in {_PATIENCE_S:g} s that the position in topic {offsets.topic} is "
            f"forgotten: {sink.problem or 'no answer'}; run pgrelay reset again once the brokers answer, or "
            f"the next run may end with exit code {GapError.exit_code}"
        ) from None
    return {json.loads(key or b"{}")["systemid"] for _, key, *_ in tombstones}
