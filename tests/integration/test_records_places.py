"""Where records go: topics for names of every kind, and partitions by Java's hash."""

import re
from collections import defaultdict

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.topics import Record, add_partitions, topic_names

_NAMES = [
    ("public", "plain_name"),
    ("public", "Plain-Name1"),
    ("public", "plain name"),
    ("public", 'quo"te'),
    ("public", "back\\slash"),
    ("public", "per%cent"),
    ("public", "a.b"),
    ("public", "a..b"),
    ("public", "é"),
    ("public", "e\u0301"),
    ("public", "日本語"),
    ("public", "x" * 63),
    ("public", "日" * 21),
    ("a.b", "c"),
    ("a", "b.c"),
    ("a", "b"),
    ("日" * 21, "本" * 21),
]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_every_table_has_its_own_legal_topic(database: Database, relay: Relay) -> None:
    for schema in {schema for schema, _ in _NAMES}:
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
    for schema, table in _NAMES:
        name = f"{_quoted(schema)}.{_quoted(table)}"
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, {_quoted(table)} text)")
        database.execute(f"INSERT INTO {name} VALUES (1, 'x')")
    relay.caught_up()
    tables = defaultdict[str, list[tuple[str, str]]](list)
    own = {f"{relay.prefix}.schema", f"{relay.prefix}.offsets"}
    for topic in topic_names(relay.kafka.bootstrap) - own:
        if topic.startswith(f"{relay.prefix}."):
            assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic)
            for record in relay.read(topic):
                source = record.json["source"]
                tables[topic].append((source["schema"], source["table"]))
                assert record.json["after"] == {"id": 1, source["table"]: "x"}
    assert all(len(found) == 1 for found in tables.values())
    assert sorted(found[0] for found in tables.values()) == sorted(_NAMES)
    assert tables[relay.topic("plain_name")] == [("public", "plain_name")]
    assert tables[relay.topic("Plain-Name1")] == [("public", "Plain-Name1")]


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_truncate_goes_to_partitions_added_since_the_start(
    database: Database, new_relay: NewRelay, delivery: str
) -> None:
    relay = new_relay(sink={"partitions": 2, "delivery": delivery}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    add_partitions(relay.kafka.bootstrap, relay.topic("t"), 5)
    database.execute("BEGIN; INSERT INTO t VALUES (2); TRUNCATE t; INSERT INTO t VALUES (3); COMMIT")
    relay.caught_up()
    records = relay.records("t")
    truncates = [record for record in records if record.json["op"] == "t"]
    assert sorted(record.partition for record in truncates) == [0, 1, 2, 3, 4]
    assert len(records) == 3 + 5


def test_two_tables_with_topics_that_kafka_confuses_are_refused(database: Database, relay: Relay) -> None:
    """Kafka treats a dot and an underscore in a topic's name as the same."""
    database.execute("CREATE SCHEMA a; CREATE SCHEMA a_b")
    database.execute("CREATE TABLE a.b_c (id int PRIMARY KEY); CREATE TABLE a_b.c (id int PRIMARY KEY)")
    database.execute("INSERT INTO a.b_c VALUES (1)")
    database.execute("INSERT INTO a_b.c VALUES (1)")
    assert relay.wait_exit() == 2
    reason = relay.log[-1]["event"]
    assert "a.b_c" in reason
    assert "a_b.c" in reason


def test_a_key_goes_to_the_partition_that_java_clients_choose(
    database: Database, new_relay: NewRelay
) -> None:
    relay = new_relay(sink={"partitions": 5}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int, word text, PRIMARY KEY (id, word))")
    database.execute("INSERT INTO t SELECT g, repeat('é', g % 7) FROM generate_series(1, 300) g")
    database.execute("UPDATE t SET id = id + 1000 WHERE id % 10 = 0")
    database.execute("DELETE FROM t WHERE id % 10 = 1")
    relay.caught_up()
    records = relay.records("t")
    assert {record.partition for record in records} == set(range(5))
    for record in records:
        assert record.key is not None
        assert record.partition == (murmur2(record.key) & 0x7FFF_FFFF) % 5


def murmur2(data: bytes) -> int:
    """org.apache.kafka.common.utils.Utils.murmur2, as an unsigned 32-bit number."""
    mixer, mask = 0x5BD1_E995, 0xFFFF_FFFF
    state = 0x9747_B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        state = state * mixer & mask ^ word
    if rest := data[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * mixer & mask
    state = (state ^ state >> 13) * mixer & mask
    return state ^ state >> 15


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_agrees_with_kafkas_tests(data: bytes, expected: int) -> None:
    """The cases of Kafka's own UtilsTest."""
    assert murmur2(data) == expected & 0xFFFF_FFFF


def test_with_headers_on_they_hold_a_records_place(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(records={"headers": True}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("BEGIN; INSERT INTO t VALUES (1); DELETE FROM t; COMMIT")
    relay.caught_up()
    create, delete, tombstone = relay.records("t")
    for record in (create, delete):
        source = record.json["source"]
        assert _texts(record) == {
            "op": record.json["op"],
            "commit_lsn": str(source["commit_lsn"]),
            "seq": str(source["seq"]),
            "txid": str(source["txId"]),
        }
    assert tombstone.headers == delete.headers


def _texts(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}
