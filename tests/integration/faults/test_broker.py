"""The broker is away or slow, or its answers get lost: rows 2, 3, 6 and 41 of docs/guarantees.md."""

import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from confluent_kafka.admin import AdminClient
from psycopg.conninfo import make_conninfo

from pgrelay.embedded.kafka import Kafka
from tests.integration.changes import place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.history import history
from tests.integration.faults.kafka_admin import refusal_of_topics
from tests.integration.faults.memory import memory
from tests.integration.faults.outcomes import WAITING
from tests.integration.faults.own_servers import own_kafka
from tests.integration.faults.slots import walsender
from tests.integration.faults.workload import Workload, prepare
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.threads import threads

MIB = 1 << 20
SOON = 8.0  # seconds; less than the 10 that a query may take
QUEUE = 1000  # records
CUTS = 10
OF_A_SINK = 7 + 2  # threads of a sink, and of the pool that calls it
ROWS = 10_000  # of 10 kB, 100 MB in all
QUICK = {"reconnect.backoff.max.ms": 200}  # so the client soon notices that the broker is back
PATIENCE = timedelta(seconds=4)  # the server's wal_sender_timeout
STALLED = "Kafka does not acknowledge; reading stops when the queue is full, nothing is lost"


@own_kafka()
@pytest.mark.parametrize(
    ("leave", "come_back"),
    [(Kafka.pause, Kafka.resume), (Kafka.kill, Kafka.start)],
    ids=["hanging", "down"],
)
def test_a_broker_that_is_away_is_waited_for(
    broker: Kafka,
    database: Database,
    new_relay: NewRelay,
    leave: Callable[[Kafka], None],
    come_back: Callable[[Kafka], None],
) -> None:
    """Rows 3, 6 and 41: the server keeps the stream throughout, and the slot stays where it was."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, body text)")
    database.execute(f"ALTER DATABASE \"{database.name}\" SET wal_sender_timeout = '{PATIENCE.seconds}s'")
    relay = new_relay(sink={"kafka": {"queue.buffering.max.messages": QUEUE, **QUICK}})
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    stream, answered, held = walsender(database, relay.prefix), last_answer(relay), memory(relay)

    leave(broker)
    for first in range(1, ROWS, 1000):
        values = f"SELECT i, repeat('x', 10000) FROM generate_series({first}, {first + 999}) i"
        database.execute(f"INSERT INTO t {values}")
    relay.wait_event(STALLED)
    relay.wait_for(lambda: relay.metric("pgrelay_inflight_records") >= QUEUE, "a full queue")
    frozen = relay.confirmed_lsn()
    relay.wait_for(lambda: last_answer(relay) > answered + 3 * PATIENCE, "the server's timeout")
    assert walsender(database, relay.prefix) == stream
    assert relay.confirmed_lsn() == frozen
    assert memory(relay) < held + 32 * MIB
    assert relay.get("/readyz")[0] == 503
    assert relay.get("/healthz")[0] == 200

    come_back(broker)
    relay.caught_up()
    assert walsender(database, relay.prefix) == stream
    assert len(relay.events(STALLED)) == 1
    assert relay.get("/readyz")[0] == 200
    assert relay.ids("t") == list(range(ROWS + 1))


def last_answer(relay: Relay) -> datetime:
    """When the server last heard from the relay."""
    with relay.database.connect() as connection:
        row = connection.execute(
            "SELECT reply_time FROM pg_stat_replication JOIN pg_replication_slots ON pid = active_pid"
            " WHERE slot_name = %s",
            [relay.prefix],
        ).fetchone()
    assert row is not None, "the server has cut the stream"
    at: datetime = row[0]
    return at


@pytest.mark.parametrize("version", ["18"], indirect=True)
def test_transaction_timeout_does_not_end_the_stream_while_kafka_is_slow(
    database: Database, embedded_kafka: Kafka, new_relay: NewRelay
) -> None:
    """Row 6: decoding a transaction is one itself, and lasts as long as Kafka delays us."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, body text)")
    limits = f"-c transaction_timeout=1s -c idle_session_timeout=1s -c wal_sender_timeout={PATIENCE.seconds}s"
    relay = new_relay(source={"dsn": make_conninfo(database.dsn, options=limits)})
    relay.start().wait_streaming()
    stream = walsender(database, relay.prefix)
    embedded_kafka.pause()
    database.execute(f"INSERT INTO t SELECT i, repeat('x', 2000) FROM generate_series(1, {ROWS}) i")
    answered = last_answer(relay)
    relay.wait_for(lambda: last_answer(relay) > answered + PATIENCE, "more time than the limits leave")
    embedded_kafka.resume()
    relay.caught_up()
    assert walsender(database, relay.prefix) == stream
    assert relay.ids("t") == list(range(1, ROWS + 1))


@own_kafka()
def test_a_broker_restart_costs_no_reconnection_to_postgres(
    broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Row 3."""
    prepare(database)
    relay = new_relay(sink={"kafka": QUICK, "partitions": 3}).start().wait_streaming()
    stream = walsender(database, relay.prefix)
    with Workload(database) as load:
        load.wait_for(100)
        broker.restart()
        load.wait_for(100)
    relay.caught_up()
    records = history(relay)
    places = [place(record) for record in records]
    assert len(places) == len(set(places))
    assert walsender(database, relay.prefix) == stream


@own_kafka()
def test_a_broker_that_is_down_at_the_start_is_waited_for(
    broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Row 3: and the metrics show how far behind the slot is, instead of no lag."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    broker.stop()
    relay = new_relay(sink={"kafka": QUICK}).start()
    assert "Connection refused" in relay.wait_event(WAITING)["reason"]
    relay.wait_for(lambda: relay.metric("pgrelay_reconnects_total") >= 2, "another try")
    assert "Connection refused" in relay.get("/readyz")[1]
    assert len(relay.events(WAITING)) == 1
    database.execute("INSERT INTO t VALUES (0)")
    relay.wait_for(lambda: relay.metric("pgrelay_lag_bytes") > 0, "the lag of the slot")
    assert relay.metric("pgrelay_slot_retained_wal_bytes") > 0
    assert math.isnan(relay.metric("pgrelay_lag_seconds"))
    broker.start()
    relay.wait_streaming()
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert relay.ids("t") == [0, 1]


@own_kafka()
def test_failed_connections_to_the_broker_leave_no_threads(broker: Kafka, new_relay: NewRelay) -> None:
    """Row 3."""
    broker.stop()
    relay = new_relay(sink={"kafka": QUICK}).start()
    relay.wait_event(WAITING)
    least = len(threads(relay.pid))
    relay.wait_for(lambda: relay.metric("pgrelay_reconnects_total") >= 4, "three more tries", 60)
    # Once the sink of the latest try has ended, which may just have begun.
    relay.wait_for(lambda: len(threads(relay.pid)) < least + OF_A_SINK, "no threads to be left")


@own_kafka()
def test_a_relay_that_waits_for_the_broker_can_be_stopped(broker: Kafka, new_relay: NewRelay) -> None:
    """Row 36."""
    broker.stop()
    relay = new_relay().start()
    relay.wait_event(WAITING)
    began = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - began < SOON


def test_a_lost_answer_duplicates_nothing(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay
) -> None:
    """Row 2."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    kafka = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", **QUICK}
    relay = new_relay(sink={"kafka": kafka}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    for first in (1, 101, 201):
        kafka_proxy.hold_replies()
        before = database.execute_at(f"INSERT INTO t SELECT generate_series({first}, {first + 99})")
        relay.records("t", first + 1)
        assert relay.confirmed_lsn() <= before
        kafka_proxy.reset()
        kafka_proxy.release()
        relay.caught_up()
    assert relay.ids("t") == list(range(301))


def test_an_interrupted_topic_creation_does_not_end_the_session(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay
) -> None:
    """Row 2: otherwise records of other tables on their way would come twice."""
    kafka = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", **QUICK}
    relay = new_relay(sink={"kafka": kafka}).start().wait_streaming()
    kafka_proxy.latency = 0.01
    for size in range(CUTS):
        kafka_proxy.cut_after = size
        database.execute(f"CREATE TABLE t{size} (id int PRIMARY KEY)")
        database.execute(f"INSERT INTO t{size} VALUES (0)")
        relay.caught_up()
        assert kafka_proxy.cut_after is None
    assert relay.events(WAITING) == []


def test_a_topic_that_kafka_leaves_without_an_answer_is_reported(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay
) -> None:
    """Row 3: although no record and no commit waits for Kafka."""
    kafka = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}"}
    relay = new_relay(sink={"kafka": kafka, "delivery": "exactly_once"}).start().wait_streaming()
    database.execute("CREATE TABLE before ()")
    relay.caught_up()
    relay.wait_for(lambda: relay.metric("pgrelay_inflight_records") == 0, "nothing in flight")
    kafka_proxy.hold_requests()
    # In one transaction, so that no position is committed before the topic is needed.
    database.execute("BEGIN; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (0); COMMIT")
    late = f"no answer for 10 s from Kafka about topic {relay.prefix}.public.t"
    relay.wait_for(lambda: late in relay.get("/readyz")[1], "the report")
    kafka_proxy.release()
    relay.caught_up()
    relay.wait_for(lambda: relay.get("/readyz")[0] == 200, "readiness")
    assert relay.ids("t") == [0]
    assert relay.events(WAITING) == []


@own_kafka(**{"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "6000"})
def test_a_topic_is_created_once_a_fenced_broker_is_back(
    broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Row 3: the broker has no contact with its controller for five seconds of six."""
    relay = new_relay(sink={"kafka": QUICK}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    # A client that knows the broker already: a new one finds none while it is fenced.
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    relay.wait_for(lambda: not refusal_of_topics(client), "the broker to take part")
    relay.wait_for(lambda: "currently fenced" in refusal_of_topics(client), "the fence")
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    assert relay.ids("t") == [0]
    assert relay.events(WAITING) == []


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_slow_broker_with_truncated_answers_duplicates_nothing(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay, delivery: str
) -> None:
    """Row 2: the connection ends repeatedly within an answer, under load."""
    prepare(database)
    kafka = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", **QUICK}
    relay = new_relay(sink={"kafka": kafka, "partitions": 3, "delivery": delivery}).start().wait_streaming()
    kafka_proxy.latency = 0.01
    with Workload(database, sessions=2) as load:
        for size in range(1, 2 * CUTS, 2):
            load.wait_for(20)
            kafka_proxy.cut_after = size
            relay.wait_for(lambda: kafka_proxy.cut_after is None, "an answer to be cut")
    relay.caught_up()
    assert relay.events(WAITING) == []
    places = [place(record) for record in history(relay)]
    assert len(places) == len(set(places))
