"""A relay, a server or a broker dies or hangs, and every change is there exactly once: rows 1 to 3 and 27.

This is what a reader with isolation.level=read_committed sees.
"""

import random
import time
from collections import Counter

import pytest

from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.once import (
    TABLE,
    assert_boundaries,
    assert_each_change_is_there_once,
    exactly_once,
    ids,
    position,
    positions,
)
from tests.integration.faults.outcomes import WAITING, WRONG, last_words
from tests.integration.faults.own_servers import own_kafka, own_postgres
from tests.integration.faults.slots import cut_stream
from tests.integration.faults.workload import Workload, prepare
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until

KILLS = 6
LARGE = 20_000  # rows
ROOM = 100  # records for which the producer's queue has room
GRACE = 2.0  # seconds
AT_ONCE = 10.0  # seconds, on a busy machine; waiting for Kafka would take for ever

STALLED = "Kafka does not acknowledge; reading stops when the queue is full, nothing is lost"

# Within a Postgres transaction, a Kafka transaction ends after a quarter of it.
PATIENCE = {"transaction.timeout.ms": 4000}


def test_a_relay_killed_at_any_instant_repeats_nothing(database: Database, new_relay: NewRelay) -> None:
    """Row 1."""
    prepare(database)
    relay = exactly_once(new_relay, transactions={"memory_mb": 1}).start().wait_streaming()
    with Workload(database) as load:
        for _ in range(KILLS):
            load.wait_for(random.randrange(20, 300))
            relay.kill()
            relay.start()
    relay.caught_up()
    assert relay.stop() == 0
    assert_each_change_is_there_once(relay)


@own_postgres()
@own_kafka()
def test_crashes_of_the_servers_repeat_nothing(
    server: Postgres, broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Rows 3 and 27: each server alone, and all three processes together.

    In one of twenty runs Kafka leaves a transaction open at the kill (KAFKA-20734, in 4.3 and 4.4), and
    the relay waits with "can't be read past offset": then it takes a second run.
    """
    prepare(database)
    relay = exactly_once(new_relay, transactions={"memory_mb": 1}).start().wait_streaming()
    with Workload(database, sessions=2, ahead=500) as load:
        for crash in (broker.restart, lambda: server.restart("immediate"), broker.kill):
            relay.caught_up()
            load.wait_for(100)
            crash()
        relay.kill()
        server.restart("immediate")
        broker.start()
        relay.start()
        load.wait_for(100)
    relay.caught_up()
    assert relay.stop() == 0
    assert_each_change_is_there_once(relay)


@own_kafka(**{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"})
def test_a_broker_that_hangs_until_it_aborts_a_transaction_repeats_nothing(
    broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Row 3: another producer sends the transaction's records again."""
    prepare(database)
    relay = exactly_once(new_relay, {"transaction.timeout.ms": 1000}).start().wait_streaming()
    with Workload(database) as load:
        load.wait_for(100)  # every table has its topic: a relay that waits for one reports that, and no stall
        relay.caught_up()
        broker.pause()
        relay.wait_event(STALLED)
        assert relay.get("/readyz")[0] == 503
        broker.resume()
        load.wait_for(100)
    relay.caught_up()
    assert relay.stop() == 0
    assert_each_change_is_there_once(relay)


@pytest.fixture
def slow_relay(database: Database, kafka_proxy: Proxy, new_relay: NewRelay) -> Relay:
    """A streaming relay of table t with a slow broker and a short transaction timeout."""
    database.execute(TABLE)
    kafka = {
        "bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}",
        "queue.buffering.max.messages": 1000,
        "batch.num.messages": 100,
    }
    sink = {"shutdown_grace_s": GRACE}
    relay = exactly_once(new_relay, kafka | PATIENCE, sink=sink, transactions={"memory_mb": 1})
    relay.start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    kafka_proxy.latency = 0.1
    return relay


def wait_cut(relay: Relay, beyond: int = 0) -> int:
    """Wait until Kafka has a part of a transaction, more than `beyond` changes; return their number."""
    return wait_until(
        lambda: at if (at := position(relay)["seq"] or 0) > beyond else 0, "a part of the transaction", 60
    )


@pytest.mark.parametrize("streaming", ["off", "parallel"])
def test_a_transaction_larger_than_kafkas_goes_on_where_it_was_cut(
    database: Database, slow_relay: Relay, kafka_proxy: Proxy, streaming: str
) -> None:
    """Row 1: after a kill and after a stop; whether the server or we keep it until its commit."""
    slow_relay.sections["source"] = {"streaming": streaming}
    slow_relay.kill()
    slow_relay.start().wait_streaming()
    database.execute(f"ALTER DATABASE \"{database.name}\" SET logical_decoding_work_mem = '64kB'")
    database.execute(f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {LARGE}) i")
    first = wait_cut(slow_relay)
    slow_relay.kill()
    assert first <= len(slow_relay.records("t", first)) < LARGE
    slow_relay.start()
    second = wait_cut(slow_relay, beyond=first)
    assert slow_relay.stop() == 0
    assert second <= len(slow_relay.records("t", second)) < LARGE
    kafka_proxy.release()
    slow_relay.start()
    slow_relay.caught_up()
    assert ids(slow_relay) == list(range(LARGE + 1))
    assert_boundaries(slow_relay, slow_relay.records("t"))
    assert positions(slow_relay)[-1].json["seq"] is None


def test_a_cut_transaction_is_not_counted_by_other_settings(
    database: Database, slow_relay: Relay, kafka_proxy: Proxy
) -> None:
    """What was delivered of it is left out by the number of its records, and without u it has fewer."""
    database.execute("CREATE TABLE u (id int PRIMARY KEY)")
    rows = f"INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, {LARGE}) i"
    database.execute(f"BEGIN; INSERT INTO u SELECT generate_series(1, 50); {rows}; COMMIT")
    wait_cut(slow_relay)
    slow_relay.kill()
    slow_relay.sections["records"] = {"tables": {"exclude": ["public.u"]}}
    assert "counted before" in last_words(slow_relay.start(), WRONG)
    slow_relay.sections["records"] = {}
    kafka_proxy.release()
    slow_relay.start()
    slow_relay.caught_up()
    assert ids(slow_relay) == list(range(LARGE + 1))


def test_a_reader_sees_each_transaction_only_as_a_whole(
    database: Database, new_relay: NewRelay, kafka_proxy: Proxy
) -> None:
    """Unless it is larger than a Kafka transaction can be. Its partitions learn of the commit one by one."""
    database.execute(TABLE)
    proxied = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", "queue.buffering.max.messages": 100}
    relay = exactly_once(new_relay, proxied).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    before, seen = counts(relay), set[tuple[int, int]]()
    kafka_proxy.latency = 0.05
    database.execute("INSERT INTO t SELECT generate_series(1, 2000)")
    end = relay.wal_end()

    def delivered() -> bool:
        seen.update(counts(relay).items())
        return relay.confirmed_lsn() >= end

    relay.wait_for(delivered, "the transaction")
    after = counts(relay)
    assert after.total() == 2001
    assert seen <= {*before.items(), *after.items()}


def counts(relay: Relay) -> Counter[int]:
    """The number of records of table t in each partition."""
    return Counter(record.partition for record in relay.records("t"))


@pytest.mark.parametrize("end", ["stopped", "cut off"])
def test_no_commit_covers_records_that_wait_for_room_in_the_producer(
    database: Database, new_relay: NewRelay, kafka_proxy: Proxy, end: str
) -> None:
    """Rows 7 and 36: a stop, or Postgres cutting us off, while a whole transaction waits for room."""
    database.execute(TABLE)
    proxied = {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}", "queue.buffering.max.messages": ROOM}
    relay = exactly_once(new_relay, proxied).start().wait_streaming()
    database.execute("INSERT INTO t VALUES (0)")
    relay.caught_up()
    kafka_proxy.latency = 0.1
    database.execute(f"INSERT INTO t SELECT generate_series(1, {4 * ROOM})")
    relay.wait_for(lambda: relay.metric("pgrelay_inflight_records") >= ROOM, "a full queue")
    if end == "stopped":
        assert relay.stop() == 0
        kafka_proxy.release()
        relay.start()
    else:
        cut_stream(relay)
        relay.wait_event(WAITING)
        kafka_proxy.release()
    relay.wait_streaming()
    relay.caught_up()
    assert ids(relay) == list(range(4 * ROOM + 1))


def test_a_stop_waits_at_most_the_grace(database: Database, slow_relay: Relay, kafka_proxy: Proxy) -> None:
    """Row 36: records not committed by then are not confirmed, and come once, later."""
    kafka_proxy.hold_requests()
    before = database.execute_at("INSERT INTO t VALUES (1)")
    slow_relay.wait_for(lambda: slow_relay.metric("pgrelay_records_total") == 2, "the row to be encoded")
    began = time.monotonic()
    assert slow_relay.stop() == 0
    assert GRACE <= time.monotonic() - began < GRACE + AT_ONCE
    assert slow_relay.confirmed_lsn() <= before
    kafka_proxy.release()
    slow_relay.start()
    slow_relay.caught_up()
    assert ids(slow_relay) == [0, 1]
