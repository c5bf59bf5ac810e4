"""The history that the records of a `Workload` must have, however often the relay restarted."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.integration.changes import change, place
from tests.integration.databases import Database
from tests.integration.faults.slots import wait_free
from tests.integration.faults.workload import TABLES
from tests.integration.relays import Relay
from tests.integration.topics import Record, read_topic
from tests.integration.waiting import wait_until

Rows = list[dict[str, Any]]

_PATIENCE = 300.0  # seconds


def history(relay: Relay) -> list[Record]:
    """All records of the workload, without tombstones. Fails unless they are the tables' whole history.

    The workload must have ended, and the relay must have caught up.
    """
    records = [record for table in TABLES for record in _read(relay, table) if record.value is not None]
    changes = [record.json for record in without_repeats(records)]
    assert_transactions_are_whole(changes)
    assert_every_count_is_there(changes)
    for table in TABLES:
        assert rows_after(changes, table) == rows_in(relay.database, table)
    return records


def _read(relay: Relay, table: str) -> list[Record]:
    """All records of a topic, which may be millions."""
    return read_topic(relay.kafka.bootstrap, relay.topic(table), timeout=_PATIENCE)


def without_repeats(records: Iterable[Record]) -> list[Record]:
    """The first record of each change. Fails if a repeat differs, or if a change is out of order."""
    first: dict[tuple[int, int], Record] = {}
    last_new: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for record in records:
        partition, at = (record.topic, record.partition), place(record)
        if at in first:
            assert change(record) == change(first[at])
        else:
            assert at > last_new[partition], f"{at} comes after {last_new[partition]} in {partition}"
            last_new[partition] = at
            first[at] = record
    return list(first.values())


def assert_transactions_are_whole(changes: Iterable[Any]) -> None:
    positions = defaultdict[int, list[int]](list)
    for value in changes:
        positions[value["source"]["commit_lsn"]].append(value["source"]["seq"])
    for commit_lsn, found in positions.items():
        assert sorted(found) == list(range(len(found))), f"transaction {commit_lsn:X} is not whole"


def assert_every_count_is_there(changes: Iterable[Any]) -> None:
    """Assert that the history of each counter is 0, 1, 2 and so on, in this order."""
    counts = defaultdict[int, list[int]](list)
    for value in changes:
        if value["source"]["table"] == "counter":
            counts[value["after"]["id"]].append(value["after"]["n"])
    assert counts
    for counted in counts.values():
        assert counted == list(range(len(counted)))


def rows_after(changes: Iterable[Any], table: str) -> Rows:
    """The table's rows after the changes, ordered by key."""
    rows: dict[tuple[int, ...], dict[str, Any]] = {}
    for value in changes:
        if value["source"]["table"] == table:
            key = _key(value["after"] or value["before"])
            rows.pop(key, None)
            if value["after"] is not None:
                rows[key] = value["after"]
    return [row for _, row in sorted(rows.items())]


def rows_in(database: Database, table: str) -> Rows:
    with database.connect() as connection:
        rows = connection.execute(f"SELECT to_jsonb(t) FROM {table} t".encode()).fetchall()
    return sorted((row for (row,) in rows), key=_key)


def _key(row: dict[str, Any]) -> tuple[int, ...]:
    return (row["id"],) if "id" in row else (row["session"], row["number"])


Ends = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Cut:
    """A relay that ended: what its slot had confirmed, and the ends of the partitions (topic, number).

    It is valid for changes `until` that LSN; None: for all. A server that crashes forgets confirmations since
    it last wrote the slot to disk, and sends those changes again.
    """

    confirmed_lsn: int
    ends: Ends
    until: Ends | None = None

    def repeats_what_was_confirmed(self, record: Record) -> bool:
        partition = (record.topic, record.partition)
        if record.offset < self.ends.get(partition, 0):
            return False
        if self.until is not None and record.offset >= self.until.get(partition, 0):
            return False
        return bool(record.json["source"]["commit_lsn"] < self.confirmed_lsn)


def cut(relay: Relay) -> Cut:
    """The current state, after the relay has ended."""
    wait_free(relay.database, relay.prefix)
    return Cut(relay.confirmed_lsn(), ends(relay))


def ends(relay: Relay) -> Ends:
    """The end offsets of the partitions of the workload's topics."""
    consumer = Consumer({"bootstrap.servers": relay.kafka.bootstrap, "group.id": "cut"})
    try:
        topics = consumer.list_topics(timeout=60).topics
        ours = [
            (relay.topic(table), number)
            for table in TABLES
            if relay.topic(table) in topics
            for number in topics[relay.topic(table)].partitions
        ]
        return {at: _end(consumer, TopicPartition(*at)) for at in ours}
    finally:
        consumer.close()


def _end(consumer: Consumer, at: TopicPartition) -> int:
    """A partition's end offset, once it has a leader: a broker needs some time after its start."""

    def watermarks() -> tuple[int, ...]:
        try:
            return consumer.get_watermark_offsets(at, timeout=10) or ()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return ()

    _, end = wait_until(watermarks, f"a leader of {at.topic} [{at.partition}]")
    return end
