"""What rows of pg_replication_slots say, with the columns of several versions."""

import math
from typing import Any

import pytest

from pgrelay.postgres.slots import Slot, SlotWal

# As PostgreSQL 10 has it.
ROW: dict[str, Any] = {
    "plugin": "pgoutput",
    "slot_type": "logical",
    "database": "shop",
    "active_pid": None,
    "confirmed_flush_lsn": "0/2000",
    "restart_lsn": "0/1000",
}


def test_a_slot_of_an_old_server_has_what_came_later_as_unknown_or_off() -> None:
    slot = Slot.from_row(ROW, None)
    assert (slot.confirmed_flush_lsn, slot.restart_lsn) == (0x2000, 0x1000)
    assert (slot.wal_status, slot.invalidation_reason, slot.lost_because) == (None, None, None)
    assert (slot.synced, slot.two_phase, slot.failover) == (False, False, False)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"invalidation_reason": "rows_removed"}, "the server removed rows of its catalogue that it needs"),
        ({"conflicting": True}, "the primary removed rows of its catalogue that it needs, or its wal_level"),
        (
            {"conflicting": True, "restart_lsn": None},
            "the server removed WAL that it needs (max_slot_wal_keep_size)",
        ),
        ({}, "the server removed WAL that it needs (max_slot_wal_keep_size)"),
        ({"invalidation_reason": "a new one"}, "the server invalidated it: a new one"),
    ],
    ids=["17", "16, by a conflict", "16, by removed WAL", "13", "later"],
)
def test_a_lost_slot_says_why(more: dict[str, Any], why: str) -> None:
    slot = Slot.from_row({**ROW, "wal_status": "lost", **more}, None)
    assert slot.lost_because is not None
    assert slot.lost_because.startswith(why)
    assert Slot.from_row({**ROW, "wal_status": "extended", **more}, None).lost_because is None


@pytest.mark.parametrize(
    ("more", "safe"),
    [
        ({}, math.inf),
        ({"wal_status": "reserved", "safe_wal_size": None}, math.inf),
        ({"wal_status": "lost", "safe_wal_size": None}, 0.0),
        ({"wal_status": "extended", "safe_wal_size": 4096}, 4096.0),
        ({"wal_status": "unreserved", "safe_wal_size": -1}, 0.0),
    ],
    ids=["12", "no limit", "lost", "limited", "past the limit"],
)
def test_how_much_wal_may_follow_until_the_slot_is_lost(more: dict[str, Any], safe: float) -> None:
    wal = SlotWal.from_row(0.0, 0x3000, {**ROW, **more}, None)
    assert (wal.safe, wal.retained) == (safe, 0x2000)


def test_without_a_slot_only_the_end_of_wal_is_known() -> None:
    wal = SlotWal.from_row(0.0, 0x3000, None, None)
    assert (wal.wal_end, wal.confirmed_lsn, wal.restart_lsn) == (0x3000, None, None)
    assert math.isnan(wal.safe)
    assert math.isnan(wal.retained)


@pytest.mark.parametrize(
    ("event", "standby", "waits"),
    [
        (None, False, False),
        ("WaitForStandbyConfirmation", True, False),
        ("WalSenderMain", False, True),
        ("WalSenderWaitForWal", False, True),
    ],
)
def test_what_the_reader_waits_for(event: str | None, standby: bool, waits: bool) -> None:
    wal = SlotWal.from_row(0.0, 0x3000, ROW, event)
    assert (wal.awaits_standby, wal.reader_waits) == (standby, waits)
