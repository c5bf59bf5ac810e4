"""The flat envelope, the transaction topic and the headers, with a real server."""

from collections import Counter
from typing import Any

import pytest

from tests.integration.changes import place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.topics import Record, topic_setting

TRANSACTIONS = {"records": {"transaction_topic": True}}


@pytest.fixture
def tables(database: Database) -> None:
    database.execute("CREATE TABLE people (id int PRIMARY KEY, name text)")
    database.execute("CREATE TABLE pets (id int PRIMARY KEY, owner int)")


def boundaries(relay: Relay) -> list[Any]:
    """The records of the transaction topic, in order."""
    return [record.json for record in relay.read(f"{relay.prefix}.transaction")]


def events(relay: Relay, *tables: str) -> list[Record]:
    """The records of the tables in order, without tombstones and copies in other partitions."""
    records = [record for table in tables for record in relay.records(table) if record.value is not None]
    by_place = {(place(record), record.topic): record for record in records}
    return [by_place[key] for key in sorted(by_place)]


@pytest.mark.usefixtures("tables")
class TestFlat:
    def test_a_record_is_the_row_with_its_position(self, database: Database, new_relay: NewRelay) -> None:
        relay = new_relay(records={"envelope": "flat"}).start().wait_streaming()
        database.execute("INSERT INTO people VALUES (1, 'Ada'); UPDATE people SET id = 2; DELETE FROM people")
        relay.caught_up()
        records = relay.records("people")
        rows = [record.json and without_place(record.json) for record in records]
        assert [record.json_key["id"] for record in records] == [1, 1, 1, 2, 2, 2]
        assert rows == [
            {"id": 1, "name": "Ada", "__op": "c", "__deleted": False},
            {"id": 1, "__op": "d", "__deleted": True},
            None,
            {"id": 2, "name": "Ada", "__op": "c", "__deleted": False},
            {"id": 2, "__op": "d", "__deleted": True},
            None,
        ]
        assert [record.json["__seq"] for record in records if record.json] == [0, 1, 2, 3]
        assert len({record.json["__commit_lsn"] for record in records if record.json}) == 1

    def test_it_has_the_same_position_and_time_as_debeziums_envelope(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        flat = new_relay("_flat", records={"envelope": "flat"}).start().wait_streaming()
        whole = new_relay("_whole", source={"publications": ["pgrelay"]}).start().wait_streaming()
        database.execute("INSERT INTO people SELECT generate_series(1, 3)")
        for relay in (flat, whole):
            relay.caught_up()
        for row, record in zip(flat.records("people", 3), whole.records("people", 3), strict=True):
            source = record.json["source"]
            told = row.json["__commit_lsn"], row.json["__seq"], row.json["__ts_ms"]
            assert told == (source["commit_lsn"], source["seq"], source["ts_ms"])

    def test_toasted_values_truncates_and_messages_have_their_members(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        database.execute("ALTER TABLE people ALTER name SET STORAGE EXTERNAL")
        relay = new_relay(records={"envelope": "flat"}, sink={"partitions": 2}).start().wait_streaming()
        database.execute("INSERT INTO people VALUES (1, repeat('x', 9000))")
        database.execute("UPDATE people SET id = id")
        database.execute("SELECT pg_logical_emit_message(true, 'note', 'hi')")
        database.execute("TRUNCATE people CASCADE")
        relay.caught_up()
        records = [without_place(record.json) for record in relay.records("people")]
        truncate = {"cascade": True, "restart_identity": False}
        assert Counter(map(str, records)) == Counter(
            map(
                str,
                [
                    {"id": 1, "name": "x" * 9000, "__op": "c", "__deleted": False},
                    {"id": 1, "__unchanged": ["name"], "__op": "u", "__deleted": False},
                    {"__truncate": truncate, "__op": "t", "__deleted": False},
                    {"__truncate": truncate, "__op": "t", "__deleted": False},
                ],
            )
        )
        (message,) = relay.read(f"{relay.prefix}.message")
        content = {"prefix": "note", "content": "aGk="}
        assert without_place(message.json) == {"__message": content, "__op": "m", "__deleted": False}


def without_place(row: dict[str, Any]) -> dict[str, Any]:
    assert {"__commit_lsn", "__seq", "__ts_ms"} <= row.keys()
    return {name: row[name] for name in row if name not in ("__commit_lsn", "__seq", "__ts_ms")}


@pytest.mark.usefixtures("tables")
class TestTransactionTopic:
    def test_begin_and_end_enclose_the_records_of_a_transaction(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay(**TRANSACTIONS).start().wait_streaming()
        database.execute("INSERT INTO people VALUES (1), (2); INSERT INTO pets VALUES (1)")
        relay.caught_up()
        begin, end = boundaries(relay)
        records = events(relay, "people", "pets")
        source = records[0].json["source"]
        name = f"{source['txId']}:{source['commit_lsn']}"
        assert begin == {
            "status": "BEGIN",
            "id": name,
            "event_count": None,
            "data_collections": None,
            "ts_ms": source["ts_ms"],
            "commit_lsn": source["commit_lsn"],
        }
        assert end == begin | {
            "status": "END",
            "event_count": 3,
            "data_collections": [
                {"data_collection": "public.people", "event_count": 2},
                {"data_collection": "public.pets", "event_count": 1},
            ],
        }
        assert [record.json["transaction"] for record in records] == [
            {"id": name, "total_order": 1, "data_collection_order": 1},
            {"id": name, "total_order": 2, "data_collection_order": 2},
            {"id": name, "total_order": 3, "data_collection_order": 1},
        ]

    def test_counts_are_of_changes_not_of_records(self, database: Database, new_relay: NewRelay) -> None:
        """A key change counts two; a truncate counts one for each table, in any number of partitions."""
        relay = new_relay(sink={"partitions": 3}, **TRANSACTIONS).start().wait_streaming()
        database.execute(
            "INSERT INTO people VALUES (1), (2); UPDATE people SET id = 3 WHERE id = 1;"
            "DELETE FROM people WHERE id = 2; TRUNCATE people, pets"
        )
        relay.caught_up()
        assert len(relay.records("people")) == 2 + 3 + 2 + 3
        assert len(relay.records("pets")) == 3
        _, end = boundaries(relay)
        assert (end["event_count"], end["data_collections"]) == (
            7,
            [
                {"data_collection": "public.people", "event_count": 6},
                {"data_collection": "public.pets", "event_count": 1},
            ],
        )
        orders = [record.json["transaction"] for record in events(relay, "people", "pets")]
        assert [order["total_order"] for order in orders] == [1, 2, 3, 4, 5, 6, 7]
        assert [order["data_collection_order"] for order in orders] == [1, 2, 3, 4, 5, 6, 1]

    def test_only_transactions_with_records_come_and_in_commit_order(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay(**TRANSACTIONS).start().wait_streaming()
        with database.connect() as late, late.transaction():
            late.execute("INSERT INTO people VALUES (1)")
            database.execute("INSERT INTO people VALUES (2)")
            database.execute("CREATE TABLE other (id int)")
        database.execute("BEGIN; INSERT INTO people VALUES (3); ROLLBACK")
        relay.caught_up()
        told = boundaries(relay)
        assert [it["status"] for it in told] == ["BEGIN", "END"] * 2
        assert [it["commit_lsn"] for it in told] == sorted(it["commit_lsn"] for it in told)
        second, first = (int(record.json["source"]["txId"]) for record in reversed(relay.records("people")))
        assert [it["id"].split(":")[0] for it in told[::2]] == [str(first), str(second)]

    def test_messages_count_in_transactions_and_have_none_outside_of_them(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        relay = new_relay(**TRANSACTIONS).start().wait_streaming()
        database.execute("SELECT pg_logical_emit_message(false, 'note', 'out')")
        database.execute("SELECT pg_logical_emit_message(true, 'note', 'in')")
        relay.caught_up()
        outside, inside = relay.read(f"{relay.prefix}.message")
        begin, end = boundaries(relay)
        assert outside.json["transaction"] is None
        assert inside.json["transaction"] == {
            "id": begin["id"],
            "total_order": 1,
            "data_collection_order": 1,
        }
        assert end["data_collections"] == [{"data_collection": "message", "event_count": 1}]

    def test_topics_of_messages_and_transactions_are_never_compacted(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        """All messages of a prefix have one key, and each counts."""
        compacted = {"sink": {"topic_config": {"cleanup.policy": "compact"}}}
        relay = new_relay(**TRANSACTIONS, **compacted).start().wait_streaming()
        database.execute("SELECT pg_logical_emit_message(true, 'note', 'in'); INSERT INTO people VALUES (1)")
        relay.caught_up()

        def cleanup(topic: str) -> str:
            return topic_setting(relay.kafka.bootstrap, topic, "cleanup.policy")

        assert cleanup(relay.topic("people")) == "compact"
        assert {cleanup(f"{relay.prefix}.{name}") for name in ("message", "transaction")} == {"delete"}

    def test_streamed_and_plain_transactions_have_the_same_boundaries(
        self, database: Database, new_relay: NewRelay
    ) -> None:
        database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
        database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
        plain = new_relay("_plain", source={"streaming": "off"}, **TRANSACTIONS).start()
        streamed = new_relay("_streamed", transactions={"memory_mb": 1}, **TRANSACTIONS).start()
        for relay in (plain, streamed):
            relay.wait_streaming()
        database.execute(
            "BEGIN; INSERT INTO people SELECT g, repeat('x', 200) FROM generate_series(1, 1000) g;"
            "SAVEPOINT s; INSERT INTO pets SELECT generate_series(1, 1000); ROLLBACK TO s;"
            "UPDATE people SET id = -id WHERE id < 10; INSERT INTO pets VALUES (1); COMMIT"
        )
        for relay in (plain, streamed):
            relay.caught_up()
        assert boundaries(plain) == boundaries(streamed)
        told = [
            [
                (record.key, place(record), record.json["transaction"])
                for record in events(it, "people", "pets")
            ]
            for it in (plain, streamed)
        ]
        assert told[0] == told[1]
        assert boundaries(plain)[1]["event_count"] == 1000 + 18 + 1

    def test_the_transaction_topic_is_off_by_default(self, database: Database, relay: Relay) -> None:
        database.execute("INSERT INTO people VALUES (1)")
        relay.caught_up()
        (record,) = relay.records("people")
        assert record.json["transaction"] is None
        assert not relay.has_topic(f"{relay.prefix}.transaction")


@pytest.mark.usefixtures("tables")
def test_headers_hold_a_records_place_and_operation(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(records={"headers": True}).start().wait_streaming()
    database.execute("INSERT INTO people VALUES (1); UPDATE people SET id = 2")
    relay.caught_up()
    created, deleted, tombstone, recreated = relay.records("people")
    source = created.json["source"]
    for record, op, seq in (
        (created, b"c", 0),
        (deleted, b"d", 1),
        (tombstone, b"d", 1),
        (recreated, b"c", 2),
    ):
        assert record.headers[:4] == (
            ("op", op),
            ("commit_lsn", b"%d" % source["commit_lsn"]),
            ("seq", b"%d" % seq),
            ("txid", b"%d" % source["txId"]),
        )
    assert created.headers[4:] == ()
    assert deleted.headers[4:] == tombstone.headers[4:] == (("__debezium.newkey", b'{"id":2}'),)
    assert recreated.headers[4:] == (("__debezium.oldkey", b'{"id":1}'),)
