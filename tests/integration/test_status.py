"""The status page and `pgrelay status` of a running relay, on real servers."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from pgrelay.embedded.kafka import Kafka
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until
from tests.status.browser import chromium

PGRELAY = Path(sys.executable).with_name("pgrelay")
PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def relay(new_relay: NewRelay, database: Database) -> Relay:
    """A relay whose large transactions come before their commit and mostly spill to disk."""
    database.execute(f"ALTER DATABASE \"{database.name}\" SET logical_decoding_work_mem = '64kB'")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    database.execute("CREATE TABLE customers (id int PRIMARY KEY)")
    # The broker needs no password; it gets one only to see whether it is shown.
    kafka = {"sasl.username": "app", "sasl.password": PASSWORD}
    sections: dict[str, Any] = {"sink": {"kafka": kafka}, "transactions": {"memory_mb": 1}}
    return new_relay(**sections).start().wait_streaming()


@pytest.fixture
def page(browser: Browser, relay: Relay) -> Iterator[Page]:
    context = browser.new_context()
    complaints: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"http://{relay.http_address}/")
    yield page
    context.close()
    assert complaints == []


def status(relay: Relay) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(relay.get("/status")[1])
    return document


def command(tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """`pgrelay status` with the first relay's configuration."""
    arguments: list[str | Path] = [
        PGRELAY,
        "status",
        "--config",
        tmp_path / "relay-1" / "pgrelay.yaml",
        *more,
    ]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60)


def test_rows_arrive_on_the_page_by_table(database: Database, relay: Relay, page: Page) -> None:
    database.execute("INSERT INTO orders SELECT generate_series(1, 300)")
    database.execute("INSERT INTO customers SELECT generate_series(1, 40)")
    orders = page.locator("#tables tr", has_text="public.orders").locator("td").last
    expect(orders).to_have_text("300")
    expect(page.locator("#tables tr", has_text="public.customers").locator("td").last).to_have_text("40")
    expect(page.locator("body")).to_have_attribute("data-state", "streaming")
    relay.caught_up()
    # From one response, since the server itself writes WAL too.
    told = wait_until(lambda: found if (found := status(relay))["lag_bytes"] == 0 else {}, "the lag to go")
    lsns = {stage["name"]: stage["lsn"] for stage in told["stages"]}
    assert all(re.fullmatch(r"[0-9A-F]+/[0-9A-F]+", lsn) for lsn in lsns.values())
    assert len(set(lsns.values())) == 1


def spilled_alike(now: dict[str, Any]) -> bool:
    """Whether both agree: the transaction's bytes are sampled once a second, the spool's more often."""
    return [one["disk_bytes"] for one in now["open"]] == [now["spooled_bytes"]] != [0]


@pytest.mark.parametrize("version", ["16", "18"], indirect=True)
def test_an_open_transaction_and_its_spilled_bytes_are_shown(
    database: Database, relay: Relay, page: Page
) -> None:
    with database.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO orders SELECT n, repeat('x', 1000) FROM generate_series(1, 80000) n")
        [xid] = connection.execute("SELECT pg_current_xact_id()::text").fetchone() or [""]
        row = page.locator("#open tr", has_text=xid)
        expect(row).to_be_visible(timeout=30_000)
        relay.wait_for(lambda: spilled_alike(status(relay)), "all of it on both")
        [open_now] = status(relay)["open"]
        assert open_now["xid"] == int(xid)
        assert open_now["memory_bytes"] <= 2**20
    expect(page.locator("#open")).to_contain_text("None")


def test_a_broker_that_goes_away_is_shown_with_the_cure(
    database: Database, relay: Relay, page: Page, embedded_kafka: Kafka
) -> None:
    database.execute("INSERT INTO orders VALUES (1)")
    relay.caught_up()  # now the topic exists
    embedded_kafka.stop()
    database.execute("INSERT INTO orders VALUES (2)")
    expect(page.locator("#notice")).to_contain_text("Kafka does not acknowledge", timeout=60_000)
    expect(page.locator("#troubles .cure").first).to_contain_text("brokers of sink.kafka")
    embedded_kafka.start()
    expect(page.locator("#notice")).to_be_hidden(timeout=60_000)
    expect(page.locator("#troubles li").first).to_contain_text("Kafka does not acknowledge")


def test_a_server_that_goes_away_is_shown_too(relay: Relay, database: Database, page: Page) -> None:
    database.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active"
        f" AND slot_name = '{relay.prefix}'"
    )
    expect(page.locator("#troubles .cure").first).to_be_visible(timeout=30_000)
    relay.wait_streaming()
    expect(page.locator("body")).to_have_attribute("data-state", "streaming")


def test_the_terminal_shows_the_same(database: Database, relay: Relay, tmp_path: Path) -> None:
    database.execute("INSERT INTO orders SELECT generate_series(1, 300)")
    relay.caught_up()
    relay.wait_for(
        lambda: [one["records"] for one in status(relay)["tables"]] == [300], "the rows to be told"
    )
    told = command(tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert f"slot {relay.prefix}, streaming, up" in told.stdout
    assert re.search(r"^public\.orders +[\d.,]+ +300$", told.stdout, re.MULTILINE)
    as_json = command(tmp_path, "--json")
    assert json.loads(as_json.stdout)["slot"] == relay.prefix


def test_no_password_is_shown_anywhere(relay: Relay, tmp_path: Path) -> None:
    for text in (relay.get("/")[1], relay.get("/status")[1], relay.get("/metrics")[1], relay.log_text):
        assert PASSWORD not in text
    told = command(tmp_path)
    assert "sasl.password: '***'" in told.stdout
    assert PASSWORD not in told.stdout + command(tmp_path, "--json").stdout


def test_the_status_of_a_stopped_relay_is_an_error(relay: Relay, tmp_path: Path) -> None:
    assert relay.stop(signal.SIGTERM) == 0
    told = command(tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith(f"pgrelay: no relay answers at {relay.http_address} (Connection refused); ")
    assert len(told.stderr.splitlines()) == 1
