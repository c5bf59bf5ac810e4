"""Exactly once: what a reader of committed records finds, whatever dies. Rows 1, 3, 4, 7, 27 and 39."""

import random
from collections import defaultdict
from typing import Any

from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from tests.integration.changes import place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.history import history
from tests.integration.faults.own_servers import own_kafka, own_postgres
from tests.integration.faults.workload import Workload, prepare
from tests.integration.relays import Relay
from tests.integration.topics import Record

KILLS = 6
AT_ONCE = 5.0  # seconds: with a client that holds it up, a server would wait for ever
QUICK = {"reconnect.backoff.max.ms": 200}  # so that the client notices soon that the broker is back

# Within a Postgres transaction, a Kafka transaction ends after a quarter of it.
IMPATIENT = {"transaction.timeout.ms": 2000}


def exactly_once(
    new_relay: NewRelay, kafka: dict[str, Any] | None = None, **sections: dict[str, Any]
) -> Relay:
    """A relay of three partitions whose memory holds little, with the transaction topic; not started."""
    sink = {"delivery": "exactly_once", "partitions": 3, "kafka": QUICK | (kafka or {})}
    records = {"transaction_topic": True}
    return new_relay(sink=sink, records=records, **{"transactions": {"memory_mb": 1}, **sections})


def assert_each_change_is_there_once(relay: Relay) -> None:
    """In order in each partition, the history whole, each transaction between its BEGIN and its END."""
    records = history(relay)
    places = [place(record) for record in records]
    assert len(places) == len(set(places))
    assert_order(records)
    assert_boundaries(relay, records)


def assert_order(records: list[Record]) -> None:
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for record in records:
        partition = (record.topic, record.partition)
        assert place(record) > last.get(partition, (0, 0))
        last[partition] = place(record)


def assert_boundaries(relay: Relay, records: list[Record]) -> None:
    """The transaction topic tells of every transaction once, and how many changes it has."""
    counts = defaultdict[int, int](int)
    for record in records:
        counts[place(record)[0]] += 1
    told = [record.json for record in relay.read(f"{relay.prefix}.transaction")]
    assert [it["status"] for it in told] == ["BEGIN", "END"] * len(counts)
    assert [it["commit_lsn"] for it in told[::2]] == sorted(counts)
    assert {it["commit_lsn"]: it["event_count"] for it in told[1::2]} == counts


def offsets(relay: Relay) -> list[Record]:
    return relay.read(f"{relay.prefix}.offsets")


def test_a_relay_that_is_killed_at_any_instant_repeats_nothing(
    database: Database, new_relay: NewRelay
) -> None:
    """Row 1."""
    prepare(database)
    relay = exactly_once(new_relay).start().wait_streaming()
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
def test_neither_does_one_whose_servers_crash(
    server: Postgres, broker: Kafka, database: Database, new_relay: NewRelay
) -> None:
    """Rows 3 and 27: the same process throughout, and killed in between."""
    prepare(database)
    relay = exactly_once(new_relay).start().wait_streaming()
    with Workload(database) as load:
        load.wait_for(100)
        broker.restart()
        load.wait_for(100)
        server.restart("immediate")
        load.wait_for(100)
        broker.kill()
        relay.kill()
        broker.start()
        relay.start()
        load.wait_for(100)
    relay.caught_up()
    assert relay.stop() == 0
    assert_each_change_is_there_once(relay)
