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
from tests.status.relays import NOW_S, PASSWORD, RelayStub, busy, config, open_transaction


@pytest.fixture
def relay(tmp_path: Path) -> RelayStub:
    (tmp_path / "spool").mkdir()
    return RelayStub(config=config(transactions={"spool_dir": str(tmp_path / "spool"), "memory_mb": 2}))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "spool" / "ours")
    spool.open()
    return spool


def test_a_disk_that_does_not_answer_delays_no_sample(
    relay: RelayStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop takes the samples."""

    def disk(_: Metrics) -> tuple[float, float]:
        relay.status.sample([])
        return 1.0, 2.0

    monkeypatch.setattr(Metrics, "spool_disk", property(disk))
    assert relay.status.snapshot().spool_free_bytes == 1


def test_before_anything_is_known_the_status_is_waiting(relay: RelayStub) -> None:
    now = relay.status.snapshot()
    assert (now.state, now.reason) == ("waiting", "starting")
    assert {stage.lsn for stage in now.stages} == {None}
    assert (now.tables, now.open, now.troubles) == ([], [], [])
    assert now.latency_p50_s is None
    assert (now.retained_wal_bytes, now.safe_wal_bytes, now.wal_limited) == (None, None, None)
    assert (now.lag_s, now.lag_bytes) == (None, None)
    assert {stage.behind_bytes for stage in now.stages} == {None}
    relay.pass_second()
    chart = relay.status.snapshot().chart
    assert (chart.lag_s, chart.lag_bytes) == ([None], [None])


def test_while_nothing_flows_the_lag_comes_from_the_server(relay: RelayStub) -> None:
    relay.metrics.set_slot(server=0x400, confirmed=0x100)
    now = relay.status.snapshot()
    assert (now.lag_s, now.lag_bytes) == (None, 0x300)
    assert [stage.lsn for stage in now.stages] == ["0/400", None, None, "0/100"]
    assert json.loads(json.dumps(now.as_json(), allow_nan=False))["lag_s"] is None


def test_stages_have_the_bytes_between_them(relay: RelayStub) -> None:
    relay.metrics.set_lsns(server=0x1_0000_0400, received=0x1_0000_0300, acknowledged=0x300, confirmed=0x100)
    now = relay.status.snapshot()
    assert now.stages == [
        Stage("server", "1/400", 0),
        Stage("received", "1/300", 0x100),
        Stage("acknowledged", "0/300", 0x1_0000_0000),
        Stage("confirmed", "0/100", 0x200),
    ]
    assert now.lag_bytes == 0x1_0000_0300


def test_stages_and_lag_are_read_at_one_moment(relay: RelayStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests come in other threads while the relay goes on."""
    moving = (Lsns(server=end, confirmed=0x100) for end in itertools.count(0x400, 0x100))
    monkeypatch.setattr(Metrics, "lsns", property(lambda _: next(moving)), raising=False)
    now = relay.status.snapshot()
    assert (now.stages[0].lsn, now.lag_bytes) == ("0/400", 0x300)


def test_a_stage_that_is_ahead_is_not_behind(relay: RelayStub) -> None:
    relay.metrics.set_lsns(server=100, received=200, acknowledged=200, confirmed=200)
    assert [stage.behind_bytes for stage in relay.status.snapshot().stages] == [0, 0, 0, 0]


def test_the_state_is_streaming_or_waiting_with_a_reason(relay: RelayStub) -> None:
    relay.health.set_streaming()
    assert relay.status.snapshot().state == "streaming"
    relay.health.set_waiting("waiting for slot shop")
    assert (relay.status.snapshot().state, relay.status.snapshot().reason) == (
        "waiting",
        "waiting for slot shop",
    )


def test_tables_are_sorted_by_rate_then_by_records(relay: RelayStub) -> None:
    for table, n in (("public.a", 5), ("public.b", 50)):
        relay.metrics.add_records(table, "c", n)
    relay.pass_second()
    relay.metrics.add_records("public.c", "c", 3)
    relay.metrics.add_records("public.c", "d", 1)
    relay.pass_second()
    now = relay.status.snapshot()
    assert now.tables == [Table("public.c", 4, 4.0), Table("public.b", 50, 0.0), Table("public.a", 5, 0.0)]
    assert now.records_per_s == 4


def test_many_tables_are_cut_and_counted(relay: RelayStub) -> None:
    for number in range(MAX_LISTED + 3):
        relay.metrics.add_records(f"public.t{number}", "c", 1)
    now = relay.status.snapshot()
    assert (len(now.tables), now.tables_total) == (MAX_LISTED, MAX_LISTED + 3)


def test_open_transactions_are_listed_with_their_spilled_bytes(relay: RelayStub, spool: Spool) -> None:
    small, large = open_transaction(spool, 7, 1000), open_transaction(spool, 8, 2000)
    large.frames.spill()
    relay.metrics.spooled_bytes = spool.on_disk
    relay.pass_second(small, large)
    now = relay.status.snapshot()
    assert now.open == [OpenTransactionSize(8, 0, large.frames.on_disk), OpenTransactionSize(7, 1000, 0)]
    assert now.spooled_bytes == large.frames.on_disk > 2000
    assert now.memory_limit_bytes == 2 << 20
    assert (now.spool_free_bytes or 0) > 0
    large.frames.discard()


def test_lag_grows_between_samples(relay: RelayStub) -> None:
    relay.metrics.set_oldest_commit(int(NOW_S * 1e6))
    relay.pass_second()
    relay.clock.now_s += 2
    now = relay.status.snapshot()
    assert (now.lag_s, now.chart.lag_s) == (3, [1.0])


def test_a_budget_without_a_limit_is_null(relay: RelayStub) -> None:
    relay.metrics.set_slot_wal(retained=8192.0, safe=math.inf)
    now = relay.status.snapshot()
    assert (now.retained_wal_bytes, now.safe_wal_bytes, now.wal_limited) == (8192, None, False)
    relay.metrics.set_slot_wal(retained=8192.0, safe=4096.0)
    now = relay.status.snapshot()
    assert (now.retained_wal_bytes, now.safe_wal_bytes, now.wal_limited) == (8192, 4096, True)


def test_the_json_reads_back_as_the_same_snapshot(relay: RelayStub, spool: Spool) -> None:
    relay.health.troubles.record_error(SourceUnavailable("Postgres can't be reached"))
    busy(relay, spool, seconds=20)
    now = relay.status.snapshot()
    assert len(now.tables) == 6
    assert now.latency_p50_s is not None
    assert Snapshot.from_json(json.loads(json.dumps(now.as_json()))) == now


def test_secrets_are_masked(relay: RelayStub) -> None:
    text = json.dumps(relay.status.json())
    assert PASSWORD not in text
    assert '"sasl.password": "***"' in text
    assert '"hash_key": "***"' in text
    assert "password=***" in text


def test_every_section_of_the_configuration_is_included(relay: RelayStub) -> None:
    assert set(relay.status.snapshot().config) == set(Config.model_fields)
