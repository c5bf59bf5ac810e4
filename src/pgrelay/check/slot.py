"""The replication slot: whether it exists and we can read it, and how long it lasts without a reader."""

import asyncio
import math
import time
from typing import Final

from pgrelay.check import queries
from pgrelay.check.findings import Finding, error, ok, refusal_finding, warning
from pgrelay.check.queries import OldestTransaction, ServerFacts
from pgrelay.config import SourceConfig
from pgrelay.errors import RESET_CURE, SetupError
from pgrelay.figures import duration, size
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import STANDBY_CURE, Slot
from pgrelay.relay.setup import check_slot_kind

_GIB: Final = 1 << 30
_DAY_S: Final = 86_400

# From here on, warn about held back WAL even without max_slot_wal_keep_size: the disk is a limit too.
_MUCH: Final = 10 * _GIB

# A new slot waits for open transactions; shorter ones are not unusual.
_LONG_OPEN_S: Final = 10.0

_RATE_OVER_S: Final = 1.0


async def slot_findings(
    catalog: Catalog, server: ServerFacts, config: SourceConfig, slot: Slot | None
) -> list[Finding]:
    rate = await wal_rate(catalog)
    oldest = await queries.oldest_transaction(catalog)
    if slot is None:
        return missing_slot(config, server, oldest, rate)
    if (unfit := wrong_kind(slot, config.slot, server.database)) is not None:
        return [unfit]
    if (why := slot.lost_because) is not None:
        return [lost(config.slot, why)]
    wal = await catalog.slot_wal(config.slot)
    if wal.restart_lsn is None:
        # The slot was dropped since we looked it up.
        return missing_slot(config, server, oldest, rate)
    reader = await queries.slot_reader(catalog, slot.active_pid) if slot.active_pid else ""
    missing = await queries.missing_standbys(catalog) if slot.failover and not server.standby else []
    return [
        in_use(config.slot, slot.active_pid, reader),
        retained_wal(config.slot, slot, wal.retained, oldest),
        forecast(config.slot, server, wal.retained, wal.safe, rate),
        *idle_timeout(config.slot, server, slot),
        *two_phase_kept(config, slot),
        *awaiting_standbys(config.slot, missing),
    ]


async def wal_rate(catalog: Catalog) -> float:
    """Bytes of WAL a second, measured for about a second."""
    start, start_lsn = time.monotonic(), await catalog.wal_end()
    await asyncio.sleep(_RATE_OVER_S)
    return max(0, await catalog.wal_end() - start_lsn) / (time.monotonic() - start)


def missing_slot(
    config: SourceConfig, server: ServerFacts, oldest: OldestTransaction | None, rate: float
) -> list[Finding]:
    if not config.create:
        return [
            error(
                f"slot {config.slot} does not exist",
                "source.create is false, so a run stops",
                f"SELECT pg_create_logical_replication_slot('{config.slot}', 'pgoutput')"
                " in that database; or source.create: true",
            )
        ]
    findings = [
        ok(f"slot {config.slot} does not exist; a run creates it and relays what is committed from then on")
    ]
    if oldest is not None and oldest.age_s > _LONG_OPEN_S:
        findings.append(
            warning(
                f"{oldest.owner} has a transaction open for {duration(oldest.age_s)}",
                "creating the slot waits until every transaction that has written has ended",
                oldest.end,
            )
        )
    safe = math.inf if server.keep_bytes is None else server.keep_bytes
    return [*findings, forecast(config.slot, server, 0, safe, rate)]


def wrong_kind(slot: Slot, name: str, database: str) -> Finding | None:
    """Why we can't read the slot, whatever its state."""
    try:
        check_slot_kind(slot, name, database)
    except SetupError as refusal:
        return refusal_finding(refusal, "a run stops before it streams")
    return None


def lost(name: str, why: str) -> Finding:
    return error(
        f"slot {name} is lost",
        f"{why}: changes since then are gone from the stream",
        RESET_CURE,
        gap=True,
    )


def in_use(name: str, pid: int | None, reader: str) -> Finding:
    if pid is None:
        return ok(f"slot {name} exists, and nobody else reads it")
    return warning(
        f"slot {name} is in use by PID {pid}" + (f", {reader}" if reader else ""),
        "a slot can have only one reader; a second relay waits until the first has ended",
        f"nothing, if this relay is running; else stop that program, or SELECT pg_terminate_backend({pid})",
        expected_in_run=True,
    )


def retained_wal(name: str, slot: Slot, retained: float, oldest: OldestTransaction | None) -> Finding:
    """The WAL that the slot holds back, and what causes that. `retained` is in bytes."""
    holds = f"slot {name} holds back {size(retained)} of WAL"
    if slot.wal_status == "unreserved":
        return warning(
            holds,
            "max_slot_wal_keep_size is exceeded: the next checkpoint may invalidate the slot",
            "start the relay now",
        )
    if retained < _MUCH:
        return ok(holds)
    if slot.active_pid is None:
        drop = f"SELECT pg_drop_replication_slot('{name}')"
        return warning(
            holds, "nobody reads it, and the disk fills", f"start the relay, or drop the slot: {drop}"
        )
    if oldest is not None and oldest.age_s > _LONG_OPEN_S:
        why = f"WAL is kept since {oldest.owner} has a transaction open for {duration(oldest.age_s)}"
        return warning(holds, why, oldest.end)
    return warning(
        holds, "its reader is behind", "look at the reader's log, and check that Kafka acknowledges"
    )


def forecast(name: str, server: ServerFacts, retained: float, safe: float, rate: float) -> Finding:
    """How long a stopped relay may stay away before the slot is lost. `SlotWal` explains the byte counts."""
    pace = f"WAL grows by {size(rate)}/s now"
    if server.keep_bytes is None or math.isinf(safe):
        day = f", {size(rate * _DAY_S)} a day" if rate else ""
        return ok(f"{pace}{day}; while the relay is away, all of it is kept (no max_slot_wal_keep_size)")
    span = duration(safe / rate) if rate else "indefinitely"
    what = f"{pace}; slot {name} lasts {span} without its relay"
    if not rate or safe / rate > _DAY_S:
        return ok(what)
    gib = int((retained + rate * _DAY_S) / _GIB) + 1
    return warning(
        what,
        f"{size(safe)} of max_slot_wal_keep_size ({size(server.keep_bytes)}) are left; then changes are lost",
        f"for a day: ALTER SYSTEM SET max_slot_wal_keep_size = '{gib}GB'; then SELECT pg_reload_conf()",
    )


def idle_timeout(name: str, server: ServerFacts, slot: Slot) -> list[Finding]:
    if not server.idle_timeout_s or slot.active_pid is not None:
        return []
    left = max(0.0, server.idle_timeout_s - (slot.inactive_s or 0.0))
    return [
        warning(
            f"slot {name} is lost in {duration(left)} unless it is read",
            f"idle_replication_slot_timeout is {duration(server.idle_timeout_s)}",
            "start the relay, or ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf()",
        )
    ]


def two_phase_kept(config: SourceConfig, slot: Slot) -> list[Finding]:
    """A slot that was once asked for two-phase commit keeps it."""
    if not slot.two_phase or config.two_phase:
        return []
    return [
        warning(
            f"slot {config.slot} has two-phase commit, though source.two_phase is false",
            "rows of prepared transactions wait in the spool, and are lost with it: a gap",
            "set source.two_phase: true and transactions.spool_dir; or copy the slot (docs/operations.md)",
        )
    ]


def awaiting_standbys(name: str, missing: list[str]) -> list[Finding]:
    """A failover slot's reader waits for standbys; `missing` are the slots that none reads."""
    if not missing:
        return []
    return [
        warning(
            f"slot {name} gets no changes while no standby reads {', '.join(missing)}",
            "it has failover, and synchronized_standby_slots names slots that must have every change first",
            STANDBY_CURE,
        )
    ]
