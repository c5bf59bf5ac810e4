"""Postgres stops, cuts connections, refuses us or is absent: rows 7, 21, 29, ... of docs/guarantees.md."""

import math
import time

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.history import history
from tests.integration.faults.once import assert_each_change_is_there_once, exactly_once
from tests.integration.faults.outcomes import WAITING
from tests.integration.faults.own_servers import own_postgres
from tests.integration.faults.slots import cut_off, walsender
from tests.integration.faults.workload import Workload, prepare
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.servers import PostgresServer

AT_ONCE = 20.0  # seconds; with a client that delays it, a server would wait for ever


@own_postgres()
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_fast_stop_does_not_wait_for_us(
    server: Postgres, database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Row 7: both an idle and a busy server; afterwards the relay goes on."""
    prepare(database)
    relay = exactly_once(new_relay, sink={"delivery": delivery}).start().wait_streaming()
    assert stopping_takes(server) < AT_ONCE
    relay.wait_event(WAITING)
    assert relay.get("/readyz")[0] == 503
    server.start()
    relay.wait_streaming()
    with Workload(database) as load:
        load.wait_for(200)
        assert stopping_takes(server) < AT_ONCE
        server.start()
        load.wait_for(100)
    relay.caught_up()
    assert relay.stop() == 0
    if delivery == "exactly_once":
        assert_each_change_is_there_once(relay)
    else:
        history(relay)


def stopping_takes(server: Postgres) -> float:
    began = time.monotonic()
    server.stop("fast")
    return time.monotonic() - began


@own_postgres()
def test_a_server_that_is_down_at_the_start_is_waited_for(
    server: Postgres, database: Database, new_relay: NewRelay
) -> None:
    """Reported once, in the log and on /readyz."""
    server.stop()
    relay = new_relay().start()
    relay.wait_event(WAITING)
    reconnects = relay.metric("pgrelay_reconnects_total")
    relay.wait_for(lambda: relay.metric("pgrelay_reconnects_total") >= reconnects + 3, "more tries")
    status, reason = relay.get("/readyz")
    assert status == 503
    assert "Connection refused" in reason
    assert len(relay.events(WAITING)) == 1
    server.start()
    relay.wait_streaming()
    assert relay.stop() == 0


def test_a_cut_connection_duplicates_no_row_of_a_half_sent_transaction(
    database: Database, new_relay: NewRelay
) -> None:
    """Row 21: its received part is dropped, since the server sends all of it again."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, body text)")
    database.execute(f"ALTER DATABASE \"{database.name}\" SET logical_decoding_work_mem = '64kB'")
    relay = new_relay().start().wait_streaming()
    with psycopg.connect(database.dsn) as writer:
        insert = "INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series(%s::int, %s) i"
        for first in (1, 1001):
            # New rows, since the server repeats nothing before it has something new to send.
            writer.execute(insert, [first, first + 999])
            relay.wait_for(lambda: relay.metric("pgrelay_open_transactions") == 1, "a transaction half sent")
            cut_connection(database, relay)
        writer.execute(insert, [2001, 3000])
    relay.caught_up()
    assert relay.ids("t") == list(range(1, 3001))
    relay.wait_for(lambda: relay.metric("pgrelay_spool_size_bytes") == 0, "an empty spool in the metrics")


def cut_connection(database: Database, relay: Relay) -> None:
    """Cut the connection; return once the relay has a new one."""
    before = walsender(database, relay.prefix)
    assert before is not None
    with database.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [before.pid])
    relay.wait_for(lambda: walsender(database, relay.prefix) not in (None, before), "a new connection")


def test_a_cut_catalogue_connection_costs_only_a_reconnection(database: Database, relay: Relay) -> None:
    """The connection beside the stream, for queries of the catalogue."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    with database.connect() as connection:
        cut = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'pgrelay'"
            " AND backend_type = 'client backend'"
        ).fetchall()
    # Soon after a start there is one more, of the check whose findings are logged; it may be ending.
    assert (True,) in cut
    relay.wait_for(lambda: relay.metric("pgrelay_reconnects_total") == 1, "a reconnection")
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}]


def test_a_connection_to_a_silent_server_is_given_up(
    postgres: PostgresServer, database: Database, new_relay: NewRelay
) -> None:
    """The network drops everything, and no connection is closed."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with Proxy(int(str(conninfo_to_dict(postgres.dsn)["port"]))) as proxy:
        dsn = make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port)
        relay = new_relay(source={"dsn": dsn}).start().wait_streaming()
        proxy.hold_requests()
        proxy.hold_replies()
        assert "has not answered" in relay.wait_event(WAITING)["reason"]
        assert relay.get("/healthz")[0] == 200
        proxy.reset()
        proxy.release()
        relay.wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        relay.caught_up()
        assert relay.stop() == 0
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}]


def test_the_lag_counts_while_a_large_transaction_comes_in(
    postgres: PostgresServer, database: Database, new_relay: NewRelay
) -> None:
    """By a slow network: nothing waits for Kafka, and yet the transaction has committed a while ago."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    with Proxy(int(str(conninfo_to_dict(postgres.dsn)["port"]))) as proxy:
        dsn = make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port)
        relay = new_relay(source={"dsn": dsn}).start().wait_streaming()
        proxy.latency = 0.1  # for each 64 KiB
        database.execute("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i")

        def lag_without_records() -> bool:
            lag_s, records = relay.metrics("pgrelay_lag_seconds", "pgrelay_records_total")
            assert records == 0, "the transaction was there before its lag"
            return lag_s > 1

        relay.wait_for(lag_without_records, "a lag")
        proxy.latency = 0.0
        relay.caught_up()
        relay.wait_for(lambda: relay.metric("pgrelay_lag_seconds") == 0, "no lag")
    assert len(relay.records("t")) == 20000


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_second_relay_waits_and_takes_over(
    database: Database, relay: Relay, new_relay: NewRelay, end: str
) -> None:
    """Row 29: and names the one it waits for."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    owner = walsender(database, relay.prefix)
    assert owner is not None
    second = new_relay().start()
    second.wait_event(WAITING)
    assert f"active for PID {owner.pid}; another relay or client has it" in second.get("/readyz")[1]
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert second.get("/readyz")[0] == 503
    assert len(second.events(WAITING)) == 1
    moved_to = relay.confirmed_lsn()
    second.wait_for(
        lambda: second.metric("pgrelay_confirmed_lsn") >= moved_to, "the slot's position in the metrics"
    )
    assert math.isnan(second.metric("pgrelay_lag_seconds"))
    getattr(relay, end)()
    second.wait_streaming()
    database.execute("INSERT INTO t VALUES (2)")
    second.caught_up()
    assert [record.json_key for record in second.records("t")] == [{"id": 1}, {"id": 2}]
    assert second.stop() == 0


def test_a_relay_that_was_replaced_for_a_while_goes_on(
    database: Database, relay: Relay, new_relay: NewRelay
) -> None:
    """Row 29: the slot has moved meanwhile, but another relay moved it, so nothing is lost."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay.caught_up()
    with cut_off(relay):
        second = new_relay().start().wait_streaming()
        database.execute("INSERT INTO t VALUES (1)")
        second.caught_up()
    relay.wait_for(lambda: "is active for PID" in relay.get("/readyz")[1], "the first to wait")
    second.kill()
    relay.wait_streaming()
    database.execute("INSERT INTO t VALUES (2)")
    relay.caught_up()
    assert [record.json_key for record in relay.records("t")] == [{"id": 1}, {"id": 2}]


def test_a_stream_whose_bytes_are_lost_on_the_way_is_given_up(
    database: Database, postgres: PostgresServer, new_relay: NewRelay
) -> None:
    """By a proxy that goes on taking what either end sends, so that neither notices anything."""
    with Proxy(int(str(conninfo_to_dict(postgres.dsn)["port"]))) as proxy:
        dsn = make_conninfo(database.dsn, port=proxy.port, sslmode="disable")
        relay = new_relay(source={"dsn": dsn}).start().wait_streaming()
        database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        relay.caught_up()
        proxy.loses_replies_to = b"replication"
        database.execute("INSERT INTO t VALUES (2)")
        waited = relay.wait_event("waiting, will go on by itself")
        assert "not even an answer, though its walsender is idle" in waited["reason"]
        proxy.loses_replies_to = None
        relay.caught_up()
        assert [record.json_key for record in relay.records("t", 2)] == [{"id": 1}, {"id": 2}]
        assert relay.stop() == 0
