"""A relay that others replace again and again, with exactly once: row 29 of docs/guarantees.md."""

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.once import TABLE, exactly_once, ids, replaced
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.long import long
from tests.threads import thread_names

TAKEOVERS = 100  # one in about seventy left a producer behind


@long
def test_a_relay_that_was_fenced_many_times_keeps_no_producer(
    database: Database, kafka_proxy: Proxy, new_relay: NewRelay
) -> None:
    database.execute(TABLE)
    relay = exactly_once(new_relay, {"bootstrap.servers": f"127.0.0.1:{kafka_proxy.port}"})
    relay.start().wait_streaming()
    insert(relay, 0)
    before = clients(relay)
    for number in range(TAKEOVERS):
        take_over(relay, kafka_proxy, new_relay, number * 2 + 1)
        insert(relay, number * 2 + 2)
        relay.wait_for(lambda: clients(relay) == before, f"no client to be left by takeover {number}")
    assert ids(relay) == list(range(TAKEOVERS * 2 + 1))


def take_over(relay: Relay, its_way_to_kafka: Proxy, new_relay: NewRelay, number: int) -> None:
    """Another relay delivers a row that this one has under way, and is killed; this one goes on."""
    its_way_to_kafka.hold_requests()
    before = relay.metric("pgrelay_records_total")
    relay.database.execute(f"INSERT INTO t VALUES ({number})")
    relay.wait_for(lambda: relay.metric("pgrelay_records_total") > before, "a record on its way")
    replaced(relay, its_way_to_kafka, new_relay).kill()
    relay.wait_streaming()


def insert(relay: Relay, number: int) -> None:
    relay.database.execute(f"INSERT INTO t VALUES ({number})")
    relay.caught_up()


def clients(relay: Relay) -> int:
    """How many clients of Kafka the relay has: each has one main thread."""
    return sum(name.startswith("rdk:main") for name in thread_names(relay.pid).values())
