"""Which position is accepted at a start, who may go on from it, and what moves it.

Rows 4, 9, 10, 11, 29 and 39 of docs/guarantees.md, with both deliveries unless a test says otherwise.
"""

import json
import re
from typing import Any

import pytest
from confluent_kafka import Producer

from pgrelay.embedded.postgres import Postgres, create_database
from pgrelay.lsn import format_lsn
from tests.integration.changes import place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.kafka_admin import allow_records_of
from tests.integration.faults.once import (
    TABLE,
    exactly_once,
    ids,
    offsets_topic,
    position,
    position_covers_slot,
    positions,
    replaced,
)
from tests.integration.faults.outcomes import LOST, UNDELIVERABLE, WAITING, WRONG, last_words
from tests.integration.faults.slots import cut_stream, exists, wait_free
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.servers import PostgresServer
from tests.integration.topics import create_topic, delete_topic

NO_POSITION = "Kafka keeps no position: if the slot is lost while pgrelay is down, that will go unnoticed"
MANY = 5000  # rows; more than the producer's queue has room for


ONLY_EXACTLY_ONCE = pytest.mark.parametrize("delivery", ["exactly_once"], indirect=True)


@pytest.fixture(params=["at_least_once", "exactly_once"])
def delivery(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def relay(database: Database, new_relay: NewRelay, delivery: str) -> Relay:
    """A relay of table t, which has delivered the row of id 0 and streams."""
    database.execute(TABLE)
    relay = exactly_once(new_relay, sink={"delivery": delivery}).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    return relay


@pytest.fixture
def stopped(relay: Relay) -> Relay:
    """The same, stopped again; its slot is free."""
    assert relay.stop() == 0
    wait_free(relay.database, relay.prefix)
    return relay


def last_offset(relay: Relay) -> tuple[bytes, Any]:
    """Key and value of the last record of the offsets topic."""
    record = positions(relay)[-1]
    assert record.key is not None
    return record.key, record.json


# --- What is kept, and what is accepted


def test_the_position_is_kept_by_cluster_database_and_slot(relay: Relay) -> None:
    confirmed_lsn = relay.confirmed_lsn()  # read before the position, which moves first
    key, value = last_offset(relay)
    with relay.database.connect() as connection:
        row = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
    assert row is not None
    assert json.loads(key) == {"systemid": row[0], "db": relay.database.name, "slot": relay.prefix}
    assert value["lsn"] >= confirmed_lsn > place(relay.records("t")[0])[0]
    assert (value["commit_lsn"], value["seq"], value["timeline"]) == (None, None, 1)


def test_a_restarted_relay_goes_on_from_the_position(stopped: Relay) -> None:
    stopped.database.execute("INSERT INTO t VALUES (1)")
    stopped.start()
    stopped.caught_up()
    assert ids(stopped) == [0, 1]


def test_a_slot_recreated_while_no_relay_ran_is_refused(stopped: Relay) -> None:
    """Row 10: it lacks the changes in between."""
    stopped.database.execute(f"SELECT pg_drop_replication_slot('{stopped.prefix}')")
    stopped.database.execute("INSERT INTO t VALUES (1)")
    stopped.database.execute(f"SELECT pg_create_logical_replication_slot('{stopped.prefix}', 'pgoutput')")
    assert "the slot was moved or re-created" in last_words(stopped.start(), LOST)
    assert "the slot was moved or re-created" in last_words(stopped.start(), LOST)
    assert ids(stopped) == [0]


def test_a_slot_dropped_while_no_relay_ran_is_not_silently_replaced(stopped: Relay) -> None:
    """Row 10: although source.create is on."""
    stopped.database.execute(f"SELECT pg_drop_replication_slot('{stopped.prefix}')")
    stopped.database.execute("INSERT INTO t VALUES (1)")
    assert f"slot {stopped.prefix} is gone" in last_words(stopped.start(), LOST)
    assert not exists(stopped.database, stopped.prefix)


@pytest.mark.parametrize("left", [True, False], ids=["re-created", "dropped"])
def test_a_reset_starts_afresh(stopped: Relay, left: bool) -> None:
    """This is the one command that recovers; the log names it."""
    stopped.database.execute(f"SELECT pg_drop_replication_slot('{stopped.prefix}')")
    stopped.database.execute("INSERT INTO t VALUES (1)")
    if left:
        stopped.database.execute(f"SELECT pg_create_logical_replication_slot('{stopped.prefix}', 'pgoutput')")
    assert "run pgrelay reset, then copy the tables" in last_words(stopped.start(), LOST)
    assert stopped.log[-1]["to_begin_anew"].startswith("pgrelay reset --config ")
    done = stopped.command("reset")
    was = "dropped" if left else "was gone already"
    assert f"slot {stopped.prefix} {was}, and its position in Kafka is forgotten" in done.stdout
    assert (done.stderr, done.returncode) == ("", 0)
    assert not exists(stopped.database, stopped.prefix)
    stopped.start().wait_streaming()
    stopped.database.execute("INSERT INTO t VALUES (2)")
    stopped.caught_up()
    assert ids(stopped) == [0, 2]


def test_a_reset_can_keep_a_slot_that_another_client_moved(stopped: Relay) -> None:
    """For example Debezium: changes from its last position on are relayed, and nothing is copied."""
    stopped.database.execute("INSERT INTO t VALUES (1)")
    stopped.database.execute(
        f"SELECT pg_replication_slot_advance('{stopped.prefix}', pg_current_wal_flush_lsn())"
    )
    stopped.database.execute("INSERT INTO t VALUES (2)")
    assert "(then: pgrelay reset --keep-slot)" in last_words(stopped.start(), LOST)
    done = stopped.command("reset", "--keep-slot")
    assert f"slot {stopped.prefix} stays at " in done.stdout
    assert "its position in Kafka is forgotten; run pgrelay" in done.stdout
    assert (done.stderr, done.returncode) == ("", 0)
    stopped.start()
    stopped.caught_up()
    assert ids(stopped) == [0, 2]


def test_a_reset_can_not_keep_a_missing_slot(stopped: Relay) -> None:
    stopped.database.execute(f"SELECT pg_drop_replication_slot('{stopped.prefix}')")
    done = stopped.command("reset", "--keep-slot")
    assert (
        done.stderr
        == f"pgrelay: slot {stopped.prefix} does not exist, so it can't be kept; leave out --keep-slot\n"
    )
    assert done.returncode == WRONG


def test_a_reset_without_slot_and_position_succeeds(database: Database, new_relay: NewRelay) -> None:
    done = new_relay().command("reset")
    assert "was gone already, and Kafka had no position of it" in done.stdout
    assert done.returncode == 0


def test_a_reset_is_refused_while_the_relay_runs(relay: Relay) -> None:
    done = relay.command("reset")
    assert "is in use by PID" in done.stderr
    assert "stop that relay first" in done.stderr
    assert done.returncode == WRONG
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert ids(relay) == [0, 1]


def test_a_reset_keeps_another_slots_position(stopped: Relay) -> None:
    """Relays may share a prefix."""
    key, value = last_offset(stopped)
    other = json.dumps({**json.loads(key), "slot": "other"})
    producer = Producer({"bootstrap.servers": stopped.kafka.bootstrap})
    producer.produce(offsets_topic(stopped), json.dumps(value), other)
    producer.flush()
    assert stopped.command("reset").returncode == 0
    latest = {record.key: record.value for record in positions(stopped)}
    assert latest[key] is None
    assert latest[other.encode()] is not None


def test_a_slot_moved_while_no_relay_ran_is_refused(stopped: Relay) -> None:
    """Row 11."""
    stopped.database.execute("INSERT INTO t VALUES (1)")
    stopped.database.execute(
        f"SELECT pg_replication_slot_advance('{stopped.prefix}', pg_current_wal_flush_lsn())"
    )
    assert "the slot was moved or re-created" in last_words(stopped.start(), LOST)


def test_a_slot_moved_while_we_were_cut_off_is_refused(relay: Relay) -> None:
    """Row 11: except by another relay, which would have moved the position too."""
    relay.pause()
    cut_stream(relay)
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.database.execute(
        f"SELECT pg_replication_slot_advance('{relay.prefix}', pg_current_wal_flush_lsn())"
    )
    relay.resume()
    assert "the slot was moved or re-created" in last_words(relay, LOST)


def test_a_position_beyond_the_servers_wal_is_refused(stopped: Relay) -> None:
    """Row 9: this happens after a restore from a backup."""
    key, value = last_offset(stopped)
    producer = Producer({"bootstrap.servers": stopped.kafka.bootstrap})
    producer.produce(offsets_topic(stopped), json.dumps({**value, "lsn": value["lsn"] + (1 << 40)}), key)
    producer.flush()
    assert "it was restored from a backup, or lost WAL" in last_words(stopped.start(), LOST)


def test_an_invalid_position_is_refused_until_it_is_replaced(stopped: Relay) -> None:
    """Otherwise nobody would know whether the slot was re-created."""
    producer = Producer({"bootstrap.servers": stopped.kafka.bootstrap})
    producer.produce(offsets_topic(stopped), b"rubbish", b"rubbish")
    producer.flush()
    assert "not a position that this version of pgrelay can read" in last_words(stopped.start(), WRONG)
    producer.produce(offsets_topic(stopped), None, b"rubbish")
    producer.flush()
    stopped.start().caught_up()
    assert ids(stopped) == [0]


def test_the_position_of_another_cluster_is_refused(stopped: Relay, version: str) -> None:
    """Row 9: its slot and database have the same names as ours."""
    with Postgres(version=version, contrib=True) as other:
        create_database(other.dsn, stopped.database.name)
        stopped.database = Database(PostgresServer(version, other.dsn, other), stopped.database.name)
        words = last_words(stopped.start(), LOST)
        assert not exists(stopped.database, stopped.prefix)
        [cluster] = re.findall(rf"has a position of slot {stopped.prefix} in (cluster \d+)", words)
        assert "(if pg_upgrade took the slot along: run pgrelay reset --keep-slot)" in words
        stopped.database.execute(f"SELECT pg_create_logical_replication_slot('{stopped.prefix}', 'pgoutput')")
        done = stopped.command("reset", "--keep-slot")
        assert exists(stopped.database, stopped.prefix)
    assert f"its position in Kafka is forgotten, also that of {cluster}; run pgrelay" in done.stdout
    assert positions(stopped)[-1].value is None


@ONLY_EXACTLY_ONCE
def test_a_position_behind_another_relays_open_transaction_is_waited_for(relay: Relay) -> None:
    """Readers of committed records can't see it until that transaction ends. Relays may share a prefix."""
    producer = Producer({"bootstrap.servers": relay.kafka.bootstrap, "transactional.id": relay.prefix})
    producer.init_transactions()
    producer.begin_transaction()
    other = {"systemid": "1", "db": "other", "slot": "other"}
    producer.produce(offsets_topic(relay), json.dumps({"lsn": 1}), json.dumps(other))
    producer.flush()
    relay.database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    relay.kill()
    relay.start()
    relay.wait_event("streaming")
    assert relay.get("/readyz")[0] == 503
    words = relay.wait_event(WAITING)["reason"]
    [offset] = re.findall(r"read past offset (\d+): another relay has a transaction open there", words)
    producer.commit_transaction()
    relay.database.execute("INSERT INTO t VALUES (2)")
    relay.caught_up()
    assert ids(relay) == [0, 1, 2]
    [at] = [record.offset for record in relay.read(offsets_topic(relay)) if record.json_key == other]
    assert at == int(offset)


def test_at_least_once_works_without_an_offsets_topic(database: Database, new_relay: NewRelay) -> None:
    """It warns about this. Topics that operators created before there were positions are still enough."""
    database.execute(TABLE)
    relay = new_relay(sink={"create_topics": False})
    for topic in ("schema", "public.t"):
        create_topic(relay.kafka.bootstrap, f"{relay.prefix}.{topic}", 1)
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    assert ids(relay) == [0]
    assert "offsets does not exist" in relay.wait_event(NO_POSITION)["reason"]
    cut_stream(relay)
    relay.wait_event("streaming", 2)
    assert len(relay.events(NO_POSITION)) == 1
    assert relay.stop() == 0


def test_an_offsets_topic_deleted_while_we_run_is_recreated(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Otherwise positions would end silently."""
    database.execute(TABLE)
    soon = {"topic.metadata.propagation.max.ms": 1000, "topic.metadata.refresh.interval.ms": 500}
    relay = new_relay(sink={"kafka": soon, "delivery": delivery}).start().wait_streaming()
    relay.caught_up()
    delete_topic(relay.kafka.bootstrap, offsets_topic(relay))
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    assert position_covers_slot(relay)
    assert delivery == "at_least_once" or ids(relay) == [0]


def test_a_change_of_delivery_goes_on_from_the_position(stopped: Relay, delivery: str) -> None:
    other = "at_least_once" if delivery == "exactly_once" else "exactly_once"
    stopped.sections["sink"] = {**stopped.sections["sink"], "delivery": other}
    stopped.database.execute("INSERT INTO t VALUES (1)")
    stopped.start()
    stopped.caught_up()
    assert ids(stopped) == [0, 1]


def test_a_transaction_timeout_above_the_brokers_maximum_is_refused(new_relay: NewRelay) -> None:
    relay = exactly_once(new_relay, {"transaction.timeout.ms": 3_600_000}).start()
    assert "lower transaction.timeout.ms in sink.kafka to the brokers'" in last_words(relay, WRONG)


# --- Who may go on from it


@pytest.mark.parametrize("rows", [1, MANY], ids=["committing", "in a transaction"])
def test_a_relay_that_wakes_up_after_a_takeover_duplicates_nothing(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay, rows: int
) -> None:
    """Row 29: it waits for its turn, and goes on when the other relay is gone."""
    database.execute(TABLE)
    proxied = {
        "bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}",
        "queue.buffering.max.messages": MANY // 2,
    }
    zombie = exactly_once(new_relay, proxied).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    zombie.caught_up()
    kafka_proxy.hold_requests()
    database.execute(f"INSERT INTO t SELECT generate_series(1, {rows})")
    zombie.wait_for(
        lambda: zombie.metric("pgrelay_inflight_records") >= min(rows, MANY // 2), "records on their way"
    )
    second = replaced(zombie, kafka_proxy, new_relay)
    database.execute(f"INSERT INTO t VALUES ({rows + 1})")
    second.caught_up()
    assert second.running
    second.kill()
    zombie.wait_streaming()
    database.execute(f"INSERT INTO t VALUES ({rows + 2})")
    zombie.caught_up()
    assert ids(zombie) == list(range(rows + 3))


# --- What moves it


def test_idle_tables_do_not_hold_back_a_busy_servers_wal(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    """Row 39: and the position moves ahead of the slot."""
    database.execute("CREATE TABLE idle (id int PRIMARY KEY)")
    database.execute("CREATE TABLE busy (id int)")
    relay = new_relay(source={"tables": ["public.idle"]}, sink={"delivery": delivery})
    relay.start().wait_streaming()
    for _ in range(3):
        database.execute("INSERT INTO busy SELECT generate_series(1, 10000)")
        relay.caught_up()
        assert position_covers_slot(relay)
    assert relay.metric("pgrelay_records_total") == 0


def test_a_record_that_is_too_large_is_not_skipped(database: Database, new_relay: NewRelay) -> None:
    """Row 4: nothing of its transaction is visible; once the limit allows it, everything comes once."""
    database.execute(TABLE)
    relay = exactly_once(new_relay)
    create_topic(relay.kafka.bootstrap, relay.topic("t"), 3, max_message_bytes="10000")
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    incompressible = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 3000) i)"
    database.execute(f"INSERT INTO t VALUES (1, 'small'), (2, {incompressible}), (3, 'small')")
    database.execute("INSERT INTO t VALUES (4, 'small')")
    words = last_words(relay, UNDELIVERABLE)
    assert last_words(relay.start(), UNDELIVERABLE) == words
    assert ids(relay) == [0]
    stopped_at = position(relay)["lsn"]
    allow_records_of(1_000_000, relay.kafka.bootstrap, relay.topic("t"))
    relay.start()
    relay.caught_up()
    assert ids(relay) == list(range(5))
    commit_lsn, _ = next(place(record) for record in relay.records("t") if record.json["after"]["id"] == 2)
    assert f"of topic {relay.topic('t')}, of the transaction committed at {format_lsn(commit_lsn)}," in words
    assert stopped_at < commit_lsn
