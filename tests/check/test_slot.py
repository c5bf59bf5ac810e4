"""The slot: its kind, its reader, how much WAL it holds back, and how long it lasts."""

import math
from dataclasses import replace

import pytest

from pgrelay.check.queries import OldestTransaction
from pgrelay.check.slot import (
    forecast,
    idle_timeout,
    in_use,
    lost,
    missing_slot,
    retained_wal,
    two_phase_kept,
    wrong_kind,
)
from pgrelay.postgres.slots import Slot
from tests.check.servers import server, source

GIB = 1 << 30
SLOT = Slot("pgoutput", "logical", "shop", None, 1, 1, "reserved")
LONG = OldestTransaction("PID 77 (psql)", 7200.0, "SELECT pg_terminate_backend(77)")


def test_our_own_slot_is_ok() -> None:
    assert wrong_kind(SLOT, "pgrelay", "shop") is None
    assert in_use("pgrelay", None, "").level == "ok"


@pytest.mark.parametrize(
    ("slot", "what"),
    [
        (
            replace(SLOT, slot_type="physical", plugin=None, database=None),
            "source.slot: s is a physical slot",
        ),
        (replace(SLOT, plugin="wal2json"), "source.slot: s uses plugin wal2json, not pgoutput"),
        (replace(SLOT, database="other"), "source.slot: s belongs to database other, source.dsn names shop"),
    ],
)
def test_a_slot_of_another_kind_or_database_is_an_error(slot: Slot, what: str) -> None:
    finding = wrong_kind(slot, "s", "shop")
    assert finding is not None
    assert (finding.level, finding.what) == ("error", what)
    assert finding.cure in ("choose another name", "correct one of them")


def test_a_slot_in_use_names_its_reader() -> None:
    finding = in_use("s", 77, "pgrelay from 10.0.0.7")
    assert (finding.level, finding.what) == ("warning", "slot s is in use by PID 77, pgrelay from 10.0.0.7")
    assert "pg_terminate_backend(77)" in finding.cure


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (None, "max_slot_wal_keep_size"),
        ("wal_removed", "max_slot_wal_keep_size"),
        ("idle_timeout", "idle_replication_slot_timeout"),
        ("new_reason", "new_reason"),
    ],
)
def test_the_finding_for_a_lost_slot_names_the_reason(reason: str | None, why: str) -> None:
    because = replace(SLOT, wal_status="lost", invalidation_reason=reason).lost_because
    assert because is not None
    finding = lost("s", because)
    assert finding.gap
    assert finding.level == "error"
    assert why in finding.why
    assert "run pgrelay reset, then copy the tables" in finding.cure


def test_a_slot_that_a_run_will_create_is_ok() -> None:
    found = missing_slot(source(), server(), None, 0.0)
    assert {finding.level for finding in found} == {"ok"}


def test_a_missing_slot_that_a_run_may_not_create_is_an_error() -> None:
    (finding,) = missing_slot(source(create=False), server(), None, 0.0)
    assert finding.level == "error"
    assert "SELECT pg_create_logical_replication_slot('pgrelay', 'pgoutput')" in finding.cure


def test_an_old_transaction_that_delays_a_new_slot_is_a_warning() -> None:
    (finding,) = (each for each in missing_slot(source(), server(), LONG, 0.0) if each.level == "warning")
    assert finding.what == "PID 77 (psql) has a transaction open for 2 h 0 min"
    assert finding.cure == LONG.end
    brief = replace(LONG, age_s=1.0)
    assert all(each.level == "ok" for each in missing_slot(source(), server(), brief, 0.0))


def test_a_slot_that_holds_back_little_is_ok() -> None:
    assert retained_wal("s", SLOT, 5, LONG).level == "ok"


@pytest.mark.parametrize(
    ("slot", "oldest", "why", "cure"),
    [
        (SLOT, LONG, "nobody reads it", "pg_drop_replication_slot('s')"),
        (replace(SLOT, active_pid=1), LONG, "PID 77", "pg_terminate_backend(77)"),
        (replace(SLOT, active_pid=1), None, "its reader is behind", "log"),
        (replace(SLOT, wal_status="unreserved"), None, "the next checkpoint", "start the relay"),
    ],
)
def test_the_finding_for_a_slot_that_holds_back_much_names_the_cause(
    slot: Slot, oldest: OldestTransaction | None, why: str, cure: str
) -> None:
    finding = retained_wal("s", slot, 11 * GIB, oldest)
    assert finding.level == "warning"
    assert why in finding.why
    assert cure in finding.cure


def test_without_a_limit_the_growth_of_wal_is_named() -> None:
    finding = forecast("s", server(), 5, math.inf, 1024.0)
    assert finding.level == "ok"
    assert finding.what.startswith("WAL grows by 1.00 KiB/s now, 84.4 MiB a day;")


def test_a_budget_that_does_not_last_a_day_is_a_warning() -> None:
    limited = server(keep_bytes=10 * GIB)
    finding = forecast("s", limited, GIB, 9 * GIB, 9 * GIB / 11400)
    assert finding.level == "warning"
    assert "slot s lasts 3 h 10 min without its relay" in finding.what
    assert "9.00 GiB of max_slot_wal_keep_size (10.0 GiB) are left" in finding.why
    assert "max_slot_wal_keep_size = '70GB'" in finding.cure


@pytest.mark.parametrize(("rate", "span"), [(0.0, "indefinitely"), (1024.0, "109 d 5 h")])
def test_a_budget_that_lasts_is_ok(rate: float, span: str) -> None:
    finding = forecast("s", server(keep_bytes=10 * GIB), 5, 9 * GIB, rate)
    assert finding.level == "ok"
    assert f"slot s lasts {span} without its relay" in finding.what


def test_a_slot_near_its_idle_timeout_is_reported() -> None:
    (finding,) = idle_timeout("s", server(idle_timeout_s=3600), replace(SLOT, inactive_s=600.0))
    assert finding.what == "slot s is lost in 50 min 0 s unless it is read"
    assert idle_timeout("s", server(idle_timeout_s=3600), replace(SLOT, active_pid=1)) == []
    assert idle_timeout("s", server(), SLOT) == []


def test_a_slot_that_keeps_two_phase_commit_is_a_warning() -> None:
    [finding] = two_phase_kept(source(), replace(SLOT, two_phase=True))
    assert (finding.level, finding.what) == (
        "warning",
        "slot pgrelay has two-phase commit, though source.two_phase is false",
    )
    assert two_phase_kept(source(two_phase=True), replace(SLOT, two_phase=True)) == []
    assert two_phase_kept(source(), SLOT) == []
