"""The relay is asked to stop in any situation: row 36 of docs/guarantees.md."""

import os
import signal
import time

import psycopg
import pytest

from tests.halting import halt
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WAITING
from tests.integration.faults.slots import exists
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until

ROWS = 30_000
GRACE = 6.0  # seconds; a stop that takes less has not waited for it


@pytest.fixture
def slow_relay(database: Database, kafka_proxy: Proxy, new_relay: NewRelay) -> Relay:
    """A streaming relay of table t with a slow broker."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = {
        "bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}",
        "queue.buffering.max.messages": 1000,
        "linger.ms": 0,
    }
    relay = new_relay(sink={"kafka": kafka, "shutdown_grace_s": GRACE}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    kafka_proxy.latency = 0.1
    return relay


def stopping_takes(relay: Relay, number: signal.Signals = signal.SIGTERM) -> float:
    began = time.monotonic()
    assert relay.stop(number) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_stop_during_a_transaction_confirms_nothing_of_it(
    database: Database, slow_relay: Relay, kafka_proxy: Proxy, number: signal.Signals
) -> None:
    """Row 36: and it is sent again as a whole."""
    database.execute(f"INSERT INTO t SELECT generate_series(1, {ROWS})")
    slow_relay.wait_for(lambda: slow_relay.metric("pgrelay_inflight_records") >= 1000, "a full queue")
    assert stopping_takes(slow_relay, number) < GRACE
    delivered = slow_relay.records("t")
    assert 1 < len(delivered) < ROWS
    assert slow_relay.confirmed_lsn() < delivered[-1].json["source"]["commit_lsn"]
    kafka_proxy.release()
    slow_relay.start().wait_streaming()
    slow_relay.caught_up()
    assert slow_relay.ids("t")[-ROWS:] == list(range(1, ROWS + 1))


def test_a_stop_waits_for_records_on_their_way(
    database: Database, slow_relay: Relay, kafka_proxy: Proxy
) -> None:
    """Row 36: whole transactions are delivered, confirmed, and not sent again."""
    for number in range(1, 6):
        database.execute(f"INSERT INTO t VALUES ({number})")
    slow_relay.wait_for(lambda: slow_relay.metric("pgrelay_records_total") == 6, "everything to be encoded")
    assert slow_relay.stop() == 0
    assert slow_relay.ids("t") == list(range(6))
    kafka_proxy.release()
    slow_relay.start().wait_streaming()
    slow_relay.caught_up()
    assert slow_relay.ids("t") == list(range(6))


def test_a_stop_waits_at_most_the_grace(database: Database, slow_relay: Relay, kafka_proxy: Proxy) -> None:
    """Row 36: what Kafka has not acknowledged by then is not confirmed."""
    kafka_proxy.hold_requests()
    before = database.execute_at("INSERT INTO t VALUES (1)")
    slow_relay.wait_for(lambda: slow_relay.metric("pgrelay_records_total") == 2, "the row to be encoded")
    assert GRACE <= stopping_takes(slow_relay) < 3 * GRACE
    assert slow_relay.confirmed_lsn() <= before
    assert "stopping before Kafka has acknowledged everything" in slow_relay.log_text


def test_a_second_signal_ends_the_wait(database: Database, slow_relay: Relay, kafka_proxy: Proxy) -> None:
    kafka_proxy.hold_requests()
    database.execute("INSERT INTO t VALUES (1)")
    slow_relay.wait_for(lambda: slow_relay.metric("pgrelay_records_total") == 2, "the row to be encoded")
    slow_relay.send(signal.SIGTERM)
    assert stopping_takes(slow_relay, signal.SIGINT) < GRACE
    assert "stopping before Kafka has acknowledged everything" in slow_relay.log_text
    assert {event["level"] for event in slow_relay.log} <= {"info", "warning"}


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_stop_does_not_wait_for_a_hanging_catalogue_query(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Row 36: the grace is for records on their way to Kafka."""
    relay = new_relay(sink={"delivery": delivery, "shutdown_grace_s": GRACE}).start().wait_streaming()
    database.execute("CREATE TYPE mood AS ENUM ('calm'); CREATE TABLE t (id int PRIMARY KEY, mood mood)")
    relay.caught_up()
    asked = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'pgrelay' AND backend_type = 'client backend'"
    )
    with database.connect() as connection:
        # The check at the start has its own connection.
        wait_until(lambda: len(connection.execute(asked).fetchall()) == 1, "the relay's alone to be left")
        [(pid,)] = connection.execute(asked).fetchall()
        halt(pid)
        try:
            connection.execute("INSERT INTO t VALUES (1, 'calm')")
            end = relay.wal_end()
            relay.wait_for(lambda: relay.metric("pgrelay_received_lsn") >= end, "the row to be received")
            assert stopping_takes(relay) < GRACE
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_stop_while_the_slot_is_being_created_leaves_none(database: Database, new_relay: NewRelay) -> None:
    """The server completes a slot only when every transaction that runs now has ended."""
    with psycopg.connect(database.dsn) as other:
        other.execute("CREATE TABLE t (id int)")
        relay = new_relay().start()
        relay.wait_event("creating the slot")
        assert stopping_takes(relay) < GRACE
        wait_until(lambda: not exists(database, relay.prefix), "the slot to go")


def test_a_relay_that_waits_for_the_slot_stops_at_once(relay: Relay, new_relay: NewRelay) -> None:
    second = new_relay().start()
    second.wait_event(WAITING)
    assert stopping_takes(second) < GRACE
