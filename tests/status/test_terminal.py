"""The page's content in a terminal."""

import math
import re
from pathlib import Path

import pytest

from pgrelay.assembly.spool import Spool
from pgrelay.errors import SourceUnavailable
from pgrelay.status.terminal import render
from tests.status.relays import PASSWORD, RelayStub, busy


@pytest.fixture
def relay(tmp_path: Path) -> RelayStub:
    relay = RelayStub()
    spool = Spool(tmp_path)
    relay.health.troubles.record_error(SourceUnavailable("Postgres can't be reached; start it"))
    busy(relay, spool, seconds=120)
    return relay


def test_everything_on_the_page_is_printed(relay: RelayStub) -> None:
    now = relay.status.snapshot()
    text = render(now, coloured=False)
    for stage in now.stages:
        assert f"{stage.lsn}" in text
        assert stage.name in text
    for table in now.tables:
        assert re.search(rf"^{re.escape(table.name)} +[\d.,]+ +{table.records:,}$", text, re.MULTILINE)
    assert re.search(r"^90211 +0 B +8\.58 MiB$", text, re.MULTILINE)
    assert "Postgres can't be reached (2 min 0 s ago)\n  cure: start it" in text
    assert "sasl.password: '***'" in text
    assert "two_phase" not in text, "a default"
    assert PASSWORD not in text
    assert "\x1b" not in text


def test_the_bytes_stand_between_the_lsns(relay: RelayStub) -> None:
    relay.metrics.set_lsns(server=0x400, received=0x300, acknowledged=0x200, confirmed=0x200)
    lsns = next(line for line in render(relay.status.snapshot(), False).splitlines() if "0/400" in line)
    assert re.split(r" {2,}|(?<=\d) (?=─)", re.sub(r" *(─ .*? →) *", r"  \1  ", lsns)) == [
        "0/400",
        "─ 256 B →",
        "0/300",
        "─ 256 B →",
        "0/200",
        "─ 0 B →",
        "0/200",
    ]


@pytest.mark.parametrize(
    ("retained", "safe", "line"),
    [
        (2 << 20, 5 << 20, "slot        2.00 MiB of WAL kept for it, 5.00 MiB of budget left"),
        (2 << 20, math.inf, "slot        2.00 MiB of WAL kept for it, no limit"),
        (math.nan, math.nan, "slot        WAL kept for it not known"),
    ],
)
def test_the_slots_budget_is_printed(relay: RelayStub, retained: float, safe: float, line: str) -> None:
    relay.metrics.set_slot_wal(retained=retained, safe=safe)
    assert line in render(relay.status.snapshot(), coloured=False).splitlines()


def test_a_tables_name_commands_no_terminal(relay: RelayStub) -> None:
    relay.metrics.add_records("public.evil \x1b]0;x\x07\nok 0 errors", "c", 10**9)
    text = render(relay.status.snapshot(), coloured=False)
    assert "\x1b" not in text
    assert "\nok 0 errors" not in text
    assert r"public.evil \x1b]0;x\x07\nok 0 errors" in text


def test_one_record_is_singular(relay: RelayStub) -> None:
    relay.metrics.inflight_records = 1
    assert "1 record that Kafka has not acknowledged" in render(relay.status.snapshot(), coloured=False)


def test_the_reason_for_waiting_is_printed(relay: RelayStub) -> None:
    relay.health.set_waiting("waiting for slot shop")
    assert "\nwaiting: waiting for slot shop\n" in render(relay.status.snapshot(), coloured=False)


def test_colours_add_nothing_but_colours(relay: RelayStub) -> None:
    now = relay.status.snapshot()
    coloured = render(now, coloured=True)
    assert coloured != render(now, coloured=False)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == render(now, coloured=False)


def test_a_relay_that_has_just_started_is_printed() -> None:
    text = render(RelayStub().status.snapshot(), coloured=False)
    assert re.search(r"^lag +not known while nothing flows$", text, re.MULTILINE)
    assert "at worst not known" in text
    for line in ("no record yet", "none since the start", "waiting: starting"):
        assert line in text


def test_the_lag_has_a_bar_for_each_moment(relay: RelayStub) -> None:
    [bars, _] = re.findall("[▁▂▃▄▅▆▇█]+", render(relay.status.snapshot(), coloured=False))
    assert len(bars) == 60
    assert (bars[0], max(bars)) == ("▁", "█")
