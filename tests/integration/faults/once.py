"""Exactly once: a relay with that delivery, and what a reader of committed records must find."""

from collections import defaultdict
from typing import Any

from tests.integration.changes import place
from tests.integration.conftest import NewRelay
from tests.integration.faults.history import history
from tests.integration.faults.slots import cut_stream
from tests.integration.proxy import Proxy
from tests.integration.relays import Relay
from tests.integration.topics import Record, await_markers

TABLE = "CREATE TABLE t (id int PRIMARY KEY, body text)"

_QUICK = {"reconnect.backoff.max.ms": 200}  # so the client soon notices that the broker is back


def exactly_once(
    new_relay: NewRelay, kafka: dict[str, Any] | None = None, **sections: dict[str, Any]
) -> Relay:
    """A relay with the transaction topic, and three partitions for each table; not started."""
    sink = {
        "delivery": "exactly_once",
        "partitions": 3,
        "kafka": _QUICK | (kafka or {}),
        **sections.pop("sink", {}),
    }
    return new_relay(sink=sink, records={"transaction_topic": True}, **sections)


def replaced(relay: Relay, its_way_to_kafka: Proxy, new_relay: NewRelay) -> Relay:
    """Another relay that took over from this one, whose requests to Kafka are held, while it was paused.

    It has delivered everything. This one has woken up since, and waits for its turn.
    """
    relay.pause()
    cut_stream(relay)
    other = exactly_once(new_relay).start().wait_streaming()
    other.caught_up()
    its_way_to_kafka.release()
    relay.resume()
    relay.wait_for(lambda: "is active for PID" in relay.get("/readyz")[1], "its turn")
    return other


def ids(relay: Relay) -> list[int]:
    """The ids of the records of table t. Fails unless the records are in commit order."""
    records = relay.records("t")
    assert_order(records)
    return [record.json["after"]["id"] for record in sorted(records, key=place)]


def assert_each_change_is_there_once(relay: Relay) -> None:
    """For an ended `Workload`: complete, in order, each transaction between its BEGIN and its END."""
    records = history(relay)
    places = [place(record) for record in records]
    assert len(places) == len(set(places))
    assert_order(records)
    assert_boundaries(relay, records)


def assert_order(records: list[Record]) -> None:
    """Assert that positions strictly increase in each partition, so no change is there twice."""
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for record in records:
        partition = (record.topic, record.partition)
        assert place(record) > last.get(partition, (0, 0))
        last[partition] = place(record)


def assert_boundaries(relay: Relay, records: list[Record]) -> None:
    """Assert that the transaction topic has every transaction once, with its number of changes."""
    counts = defaultdict[int, int](int)
    for record in records:
        counts[place(record)[0]] += 1
    told = [record.json for record in relay.read(f"{relay.prefix}.transaction")]
    assert [it["status"] for it in told] == ["BEGIN", "END"] * len(counts)
    assert [it["commit_lsn"] for it in told[::2]] == sorted(counts)
    assert {it["commit_lsn"]: it["event_count"] for it in told[1::2]} == counts


def offsets_topic(relay: Relay) -> str:
    return f"{relay.prefix}.offsets"


def positions(relay: Relay) -> list[Record]:
    """The records of the offsets topic, also those of a commit that was acknowledged just now.

    Fails if a transaction stays open there: a relay that ends by an error leaves one.
    """
    await_markers(relay.kafka.bootstrap, [offsets_topic(relay)])
    return relay.read(offsets_topic(relay))


def position(relay: Relay) -> Any:
    """The last record of the offsets topic that can be read now; null if there is none yet."""
    records = relay.read(offsets_topic(relay))
    return records[-1].json if records else None


def position_covers_slot(relay: Relay) -> bool:
    """Whether the position in Kafka is the slot's position, or beyond it.

    The slot is read first: it may move at any time, after the position, since other tests write WAL too.
    """
    confirmed_lsn = relay.confirmed_lsn()
    kept = positions(relay)
    return kept != [] and bool(kept[-1].json["lsn"] >= confirmed_lsn)
