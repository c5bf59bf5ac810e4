"""Other slots, and the WAL that they hold back."""

from pgrelay.check.other_slots import OtherSlot, slots_holding_wal

GIB = 1 << 30


def test_without_other_slots_all_is_ok() -> None:
    [finding] = slots_holding_wal([])
    assert (finding.level, finding.what) == ("ok", "no other slot holds back WAL")


def test_slots_that_are_read_or_hold_little_are_ok() -> None:
    [finding] = slots_holding_wal([OtherSlot("replica", True, 20 * GIB), OtherSlot("new", False, 1 << 20)])
    assert finding.level == "ok"
    assert finding.what == "2 other slots: replica (20.0 GiB), new (1.00 MiB, nobody reads it)"


def test_an_unread_slot_that_holds_much_is_a_warning() -> None:
    [finding] = slots_holding_wal([OtherSlot("old", False, 3 * GIB), OtherSlot("replica", True, 2 * GIB)])
    assert (finding.level, finding.what) == (
        "warning",
        "unread slots hold back WAL: old (3.00 GiB, nobody reads it)",
    )
    assert "pg_drop_replication_slot('old')" in finding.cure
