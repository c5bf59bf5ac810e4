"""The relay's clock and the server's disagree: row 30 of docs/guarantees.md."""

from pathlib import Path

import pytest

from tests.integration.changes import place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.proxy import Proxy

HOUR = 3600  # seconds


@pytest.mark.parametrize("skew", [-HOUR, HOUR], ids=["behind", "ahead"])
def test_clock_skew_gives_no_negative_lag_and_does_not_change_order(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay, monkeypatch: pytest.MonkeyPatch, skew: int
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "skewed"))
    monkeypatch.setenv("PGRELAY_TEST_SKEW_S", str(skew))
    relay = new_relay(sink={"kafka": {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}"}})
    relay.start(forked=False).wait_streaming()  # Python reads its path when it starts
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    kafka_proxy.hold_requests()
    for number in range(2, 10):
        database.execute(f"INSERT INTO t VALUES ({number})")
    # The position may be one more.
    relay.wait_for(lambda: relay.metric("pgrelay_inflight_records") >= 8, "rows on their way")
    lag = relay.metric("pgrelay_lag_seconds")
    assert lag >= HOUR / 2 if skew > 0 else lag == 0
    kafka_proxy.release()
    relay.caught_up()
    records = relay.records("t")
    assert [record.json_key["id"] for record in records] == list(range(1, 10))
    assert [place(record) for record in records] == sorted(place(record) for record in records)
    told_us = records[0].json["ts_ms"] - records[0].json["source"]["ts_ms"]
    assert abs(told_us - 1000 * skew) < 1000 * HOUR / 2
    relay.wait_for(lambda: relay.metric("pgrelay_lag_seconds") == 0, "no lag")
