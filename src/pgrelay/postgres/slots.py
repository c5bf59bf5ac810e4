"""A slot, as in pg_replication_slots. Source: PostgreSQL manual, "System Views"."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pgrelay.lsn import parse_lsn

# Wait events of a walsender: for a standby of synchronized_standby_slots; for WAL, or its client to read.
_WAIT_FOR_STANDBY: Final = "WaitForStandbyConfirmation"
_WAIT_IDLE: Final = "WalSender"

STANDBY_CURE: Final = (
    "start the standby; or take its slot out of synchronized_standby_slots, and SELECT pg_reload_conf()"
)

# pg_replication_slots.invalidation_reason, for people.
_INVALIDATED: Final = {
    "wal_removed": "the server removed WAL that it needs (max_slot_wal_keep_size)",
    "rows_removed": "the server removed rows of its catalogue that it needs",
    "wal_level_insufficient": "wal_level was lowered on the primary",
    "idle_timeout": "nobody read it for idle_replication_slot_timeout",
    # PostgreSQL 16 does not say which.
    "conflict": "the primary removed rows of its catalogue that it needs, or its wal_level was lowered",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of pg_replication_slots.

    `wal_status` is None before PostgreSQL 13; `invalidation_reason` is None before 16, and if there is none.
    A `synced` slot was copied from a primary: it can be read only once the standby is promoted.
    `inactive_s`: for how many seconds nobody has read it; None before 17, and while somebody does.
    `two_phase`: prepared transactions come at their PREPARE, whatever the stream asks for.
    `failover`: standbys copy it, and its reader gets nothing that those of synchronized_standby_slots lack.
    """

    plugin: str | None
    slot_type: str
    database: str | None
    active_pid: int | None
    confirmed_flush_lsn: int | None
    restart_lsn: int | None
    wal_status: str | None
    invalidation_reason: str | None = None
    synced: bool = False
    inactive_s: float | None = None
    two_phase: bool = False
    failover: bool = False

    @classmethod
    def from_row(cls, row: Mapping[str, Any], inactive_s: float | None) -> Self:
        """`row` is of pg_replication_slots, as JSON: without the columns that its version lacks."""
        reason = row.get("invalidation_reason")
        # 16 reports every invalidated slot as conflicting; if its WAL was removed, it has no restart_lsn.
        if reason is None and row.get("conflicting") and row["restart_lsn"] is not None:
            reason = "conflict"
        return cls(
            plugin=row["plugin"],
            slot_type=row["slot_type"],
            database=row["database"],
            active_pid=row["active_pid"],
            confirmed_flush_lsn=_lsn(row["confirmed_flush_lsn"]),
            restart_lsn=_lsn(row["restart_lsn"]),
            wal_status=row.get("wal_status"),
            invalidation_reason=reason,
            synced=row.get("synced", False),
            inactive_s=inactive_s,
            two_phase=row.get("two_phase", False),
            failover=row.get("failover", False),
        )

    @property
    def lost_because(self) -> str | None:
        """Why nobody can read the slot any more; None if it can be read."""
        if self.wal_status != "lost":
            return None
        reason = self.invalidation_reason or "wal_removed"
        return _INVALIDATED.get(reason, f"the server invalidated it: {reason}")


@dataclass(frozen=True, slots=True)
class SlotWal:
    """The end of the server's WAL, `wal_end`, and where a slot stands in it.

    `asked_at` is when the server was asked, by the monotonic clock.
    `confirmed_lsn` and `restart_lsn` (from where it still needs WAL) are the slot's; None without a slot.
    `safe` is how many bytes may be written until the slot is lost; inf without a limit, as before 13.
    `wait_event` is its reader's, as in pg_stat_activity; None while it works, or if it is another user's.
    """

    asked_at: float
    wal_end: int
    confirmed_lsn: int | None
    restart_lsn: int | None
    safe: float
    wait_event: str | None = None

    @classmethod
    def from_row(
        cls, asked_at: float, wal_end: int, row: Mapping[str, Any] | None, wait_event: str | None
    ) -> Self:
        """`row` is as for `Slot.from_row`; None without a slot."""
        if row is None:
            return cls(asked_at, wal_end, None, None, math.nan)
        confirmed_lsn, restart_lsn = _lsn(row["confirmed_flush_lsn"]), _lsn(row["restart_lsn"])
        return cls(asked_at, wal_end, confirmed_lsn, restart_lsn, _safe_wal(row), wait_event)

    @property
    def awaits_standby(self) -> bool:
        """Its reader is sent nothing until a standby of synchronized_standby_slots has it."""
        return self.wait_event == _WAIT_FOR_STANDBY

    @property
    def reader_waits(self) -> bool:
        """The walsender waits for WAL, or for its client to read."""
        return self.wait_event is not None and self.wait_event.startswith(_WAIT_IDLE)

    @property
    def retained(self) -> float:
        """Bytes of WAL that are kept for the slot; nan if it needs none."""
        return math.nan if self.restart_lsn is None else self.wal_end - self.restart_lsn


def _safe_wal(row: Mapping[str, Any]) -> float:
    """As `SlotWal.safe`; `row` is of pg_replication_slots."""
    size = row.get("safe_wal_size")
    if size is None:
        # NULL means either: no limit, or lost.
        return 0.0 if row.get("wal_status") == "lost" else math.inf
    # Below 0 past the limit, until the next checkpoint.
    return max(0.0, float(size))


def _lsn(text: str | None) -> int | None:
    return None if text is None else parse_lsn(text)
