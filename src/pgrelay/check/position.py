"""Compare the position that earlier runs left in Kafka with the slot, as a run does: is there a gap?"""

from pgrelay.check.findings import Finding, ok, refusal_finding, warning
from pgrelay.config import Config
from pgrelay.errors import (
    GapError,
    KafkaUnavailable,
    PgrelayError,
    PositionError,
    SetupError,
    StandbyNotReady,
)
from pgrelay.kafka.sink import Sink
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import Slot
from pgrelay.postgres.source import Source
from pgrelay.relay.numbering import (
    RENUMBERED,
    RENUMBERED_CURE,
    RENUMBERED_WHY,
    check_numbering,
    renumbers,
)
from pgrelay.relay.server import Server
from pgrelay.relay.setup import check_not_synced
from pgrelay.relay.stored_position import check_may_create_slot, read_position


async def position_findings(
    catalog: Catalog, config: Config, slot: Slot | None, standby: bool
) -> list[Finding]:
    """`slot` is None if there is none; `standby`: the server is one. Raises KafkaUnavailable.

    Other findings report a server that is away or refuses us, and a lost slot. A slot in use is left to its
    reader, which has made the same comparison and moves the position meanwhile.
    """
    if slot is not None and (slot.active_pid is not None or slot.lost_because is not None):
        return []
    try:
        async with Source(config.source.dsn) as source:
            server = Server(config, catalog, await source.identify(), standby)
        sink = Sink(config.sink)
    except PgrelayError:
        return []
    try:
        return await _compare_with_kafka(server, sink, slot)
    finally:
        await sink.close()


async def _compare_with_kafka(server: Server, sink: Sink, slot: Slot | None) -> list[Finding]:
    try:
        await sink.topics.load()
    except (KafkaUnavailable, SetupError):
        return []
    try:
        return await _compare(server, sink, slot)
    except StandbyNotReady as waits:
        return [refusal_finding(waits, "a run would wait")]
    except GapError as gap:
        return [refusal_finding(gap, f"a run would lose changes, and ends with exit code {gap.exit_code}")]
    except PositionError as unread:
        return [refusal_finding(unread, f"a run ends with exit code {unread.exit_code}")]
    except SetupError:
        return []


async def _compare(server: Server, sink: Sink, slot: Slot | None) -> list[Finding]:
    if slot is None:
        await check_may_create_slot(sink, server)
        return []
    name = server.config.source.slot
    if server.standby:
        check_not_synced(slot, name)
    position = await read_position(sink, server.offsets)
    if position is None:
        return []
    upstream = server.upstream(slot)
    await upstream.check(position)
    findings = [ok(f"Kafka has everything up to {format_lsn(position.lsn)}, and slot {name} matches it")]
    if server.config.sink.delivery == "exactly_once":
        check_numbering(position, upstream.numbering)
    elif renumbers(position, upstream.numbering):
        findings.append(warning(RENUMBERED, RENUMBERED_WHY, RENUMBERED_CURE))
    return findings
