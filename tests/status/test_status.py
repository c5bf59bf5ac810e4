"""What is collected about a relay, and its JSON."""

import itertools
import json
import math
from pathlib import Path

import pytest

from pgrelay.assembly.spool import Spool
from pgrelay.config import Config
from pgrelay.errors import SourceUnavailable
from pgrelay.metrics import Lsns, Metrics
from pgrelay.status.snapshot import OpenTransactionSize, Snapshot, Stage, Table
from pgrelay.status.status import MAX_LISTED
from tests.status.relays import NOW_S, PASSWORD, Told, busy, config, open_transaction


@pytest.fixture
def told(tmp_path: Path) -> Told:
    (tmp_path / "spool").mkdir()
    return Told(config=config(transactions={"spool_dir": str(tmp_path / "spool"), "memory_mb": 2}))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "spool" / "ours")
    spool.open()
    return spool


def test_a_disk_that_does_not_answer_delays_no_sample(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop takes the samples."""

    def disk(_: Metrics) -> tuple[float, float]:
        told.status.sample([])
        return 1.0, 2.0

    monkeypatch.setattr(Metrics, "spool_disk", property(disk))
    assert told.status.snapshot().spool_free_bytes == 1


def test_before_anything_is_known_the_status_is_waiting(told: Told) -> None:
    now = told.status.snapshot()
    assert (now.state, now.reason) == ("waiting", "starting")
    assert {stage.lsn for stage in now.stages} == {None}
    assert (now.tables, now.open, now.troubles) == ([], [], [])
    assert now.latency_p50_s is None
    assert (now.retained_wal_bytes, now.safe_wal_bytes, now.wal_limited) == (None, None, None)
    assert (now.lag_s, now.lag_bytes) == (None, None)
    assert {stage.behind_bytes for stage in now.stages} == {None}
    told.pass_second()
    chart = told.status.snapshot().chart
    assert (chart.lag_s, chart.lag_bytes) == ([None], [None])


def test_while_nothing_flows_the_lag_comes_from_the_server(told: Told) -> None:
    told.metrics.set_slot(server=0x400, confirmed=0x100)
    now = told.status.snapshot()
    assert (now.lag_s, now.lag_bytes) == (None, 0x300)
    assert [stage.lsn for stage in now.stages] == ["0/400", None, None, "0/100"]
    assert json.loads(json.dumps(now.as_json(), allow_nan=False))["lag_s"] is None


def test_stages_have_the_bytes_between_them(told: Told) -> None:
    told.metrics.set_lsns(server=0x1_0000_0400, received=0x1_0000_0300, acknowledged=0x300, confirmed=0x100)
    now = told.status.snapshot()
    assert now.stages == [
        Stage("server", "1/400", 0),
        Stage("received", "1/300", 0x100),
        Stage("acknowledged", "0/300", 0x1_0000_0000),
        Stage("confirmed", "0/100", 0x200),
    ]
    assert now.lag_bytes == 0x1_0000_0300


def test_stages_and_lag_are_read_at_one_moment(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests come in other threads while the relay goes on."""
    moving = (Lsns(server=end, confirmed=0x100) for end in itertools.count(0x400, 0x100))
    monkeypatch.setattr(Metrics, "lsns", property(lambda _: next(moving)), raising=False)
    now = told.status.snapshot()
    assert (now.stages[0].lsn, now.lag_bytes) == ("0/400", 0x300)


def test_a_stage_that_is_ahead_is_not_behind(told: Told) -> None:
    told.metrics.set_lsns(server=100, received=200, acknowledged=200, confirmed=200)
    assert [stage.behind_bytes for stage in told.status.snapshot().stages] == [0, 0, 0, 0]


def test_the_state_is_streaming_or_waiting_with_a_reason(told: Told) -> None:
    told.health.set_streaming()
    assert told.status.snapshot().state == "streaming"
    told.health.set_waiting("waiting for slot shop")
    assert (told.status.snapshot().state, told.status.snapshot().reason) == (
        "waiting",
        "waiting for slot shop",
    )


def test_tables_are_sorted_by_rate_then_by_records(told: Told) -> None:
    for table, n in (("public.a", 5), ("public.b", 50)):
        told.metrics.add_records(table, "c", n)
    told.pass_second()
    told.metrics.add_records("public.c", "c", 3)
    told.metrics.add_records("public.c", "d", 1)
    told.pass_second()
    now = told.status.snapshot()
    assert now.tables == [Table("public.c", 4, 4.0), Table("public.b", 50, 0.0), Table("public.a", 5, 0.0)]
    assert now.records_per_s == 4


def test_many_tables_are_cut_and_counted(told: Told) -> None:
    for number in range(MAX_LISTED + 3):
        told.metrics.add_records(f"public.t{number}", "c", 1)
    now = told.status.snapshot()
    assert (len(now.tables), now.tables_total) == (MAX_LISTED, MAX_LISTED + 3)


def test_open_transactions_are_listed_with_their_spilled_bytes(told: Told, spool: Spool) -> None:
    small, large = open_transaction(spool, 7, 1000), open_transaction(spool, 8, 2000)
    large.frames.spill()
    told.metrics.spooled_bytes = spool.on_disk
    told.pass_second(small, large)
    now = told.status.snapshot()
    assert now.open == [OpenTransactionSize(8, 0, large.frames.on_disk), OpenTransactionSize(7, 1000, 0)]
    assert now.spooled_bytes == large.frames.on_disk > 2000
    assert now.memory_limit_bytes == 2 << 20
    assert (now.spool_free_bytes or 0) > 0
    large.frames.discard()


def test_lag_grows_between_samples(told: Told) -> None:
    told.metrics.set_oldest_commit(int(NOW_S * 1e6))
    told.pass_second()
    told.clock.now_s += 2
    now = told.status.snapshot()
    assert (now.lag_s, now.chart.lag_s) == (3, [1.0])


def test_a_budget_without_a_limit_is_null(told: Told) -> None:
    told.metrics.set_slot_wal(retained=8192.0, safe=math.inf)
    now = told.status.snapshot()
    assert (now.retained_wal_bytes, now.safe_wal_bytes, now.wal_limited) == (8192, None, False)
    told.metrics.set_slot_wal(retained=8192.0, safe=4096.0)
    now = told.status.snapshot()
    assert (now.retained_wal_bytes, now.safe_wal_bytes, now.wal_limited) == (8192, 4096, True)


def test_the_json_reads_back_as_the_same_snapshot(told: Told, spool: Spool) -> None:
    told.health.troubles.record_error(SourceUnavailable("Postgres can't be reached"))
    busy(told, spool, seconds=20)
    now = told.status.snapshot()
    assert len(now.tables) == 6
    assert now.latency_p50_s is not None
    assert Snapshot.from_json(json.loads(json.dumps(now.as_json()))) == now


def test_secrets_are_masked(told: Told) -> None:
    text = json.dumps(told.status.json())
    assert PASSWORD not in text
    assert '"sasl.password": "***"' in text
    assert '"hash_key": "***"' in text
    assert "password=***" in text


def test_every_section_of_the_configuration_is_included(told: Told) -> None:
    assert set(told.status.snapshot().config) == set(Config.model_fields)
