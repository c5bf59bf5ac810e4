"""Every server version gives the same records, with the best protocol that it supports."""

import time
from typing import Any

import pytest

from pgrelay import __version__
from tests.integration.changes import TRUNCATED, changes, created, deleted, updated
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.servers import on_all_versions

_OPTIONS = {
    "10": {"proto_version": "1"},
    "11": {"proto_version": "1"},
    "12": {"proto_version": "1"},
    "13": {"proto_version": "1"},
    "14": {"proto_version": "2", "streaming": "on", "messages": "true"},
    "15": {"proto_version": "3", "streaming": "on", "messages": "true"},
    "16": {"proto_version": "4", "streaming": "parallel", "messages": "true"},
    "17": {"proto_version": "4", "streaming": "parallel", "messages": "true"},
    "18": {"proto_version": "4", "streaming": "parallel", "messages": "true"},
}


@pytest.fixture
def people(database: Database) -> None:
    database.execute("CREATE TABLE people (id int PRIMARY KEY, name text)")


@on_all_versions
@pytest.mark.usefixtures("people")
def test_changes_give_the_documented_records(database: Database, relay: Relay) -> None:
    database.execute("INSERT INTO people VALUES (1, 'Ada'), (2, NULL)")
    database.execute("UPDATE people SET name = 'Ada L' WHERE id = 1")
    database.execute("UPDATE people SET id = 3 WHERE id = 2")
    database.execute("DELETE FROM people WHERE id = 1")
    relay.caught_up()
    records = relay.records("people")
    assert changes(records) == [
        created({"id": 1}, {"id": 1, "name": "Ada"}),
        created({"id": 2}, {"id": 2, "name": None}),
        updated({"id": 1}, {"id": 1, "name": "Ada L"}),
        *deleted({"id": 2}, {"id": 2}),
        created({"id": 3}, {"id": 3, "name": None}),
        *deleted({"id": 1}, {"id": 1}),
    ]
    newkey, oldkey = ("__debezium.newkey", b'{"id":3}'), ("__debezium.oldkey", b'{"id":2}')
    assert [record.headers for record in records] == [(), (), (), (newkey,), (newkey,), (oldkey,), (), ()]


@on_all_versions
@pytest.mark.usefixtures("people")
def test_truncates_are_relayed_from_postgres_11_on(database: Database, relay: Relay, version: str) -> None:
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    database.execute("TRUNCATE people RESTART IDENTITY CASCADE")
    relay.caught_up()
    inserted, *truncated = relay.records("people")
    assert changes([inserted]) == [created({"id": 1}, {"id": 1, "name": "Ada"})]
    assert changes(truncated) == ([] if version == "10" else [TRUNCATED])
    for record in truncated:
        assert record.json["truncate"] == {"cascade": True, "restart_identity": True}


@on_all_versions
@pytest.mark.usefixtures("people")
def test_source_describes_where_a_change_comes_from(database: Database, relay: Relay) -> None:
    with database.connect() as connection, connection.transaction():
        began_ms = time.time_ns() // 1_000_000
        connection.execute("INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')")
        (xid,) = connection.execute("SELECT txid_current()").fetchone() or (0,)
    relay.caught_up()
    records = relay.records("people")
    for seq, record in enumerate(records):
        source = record.json["source"]
        told = {name: source[name] for name in ("version", "connector", "name", "db", "schema", "table")}
        assert told == {
            "version": __version__,
            "connector": "postgresql",
            "name": relay.prefix,
            "db": database.name,
            "schema": "public",
            "table": "people",
        }
        assert source["txId"] == xid % 2**32
        assert source["seq"] == seq
        assert began_ms <= source["ts_ms"] <= record.json["ts_ms"] <= time.time_ns() // 1_000_000
        assert source["ts_us"] // 1000 == source["ts_ms"]
    first, second = (record.json["source"] for record in records)
    assert first["commit_lsn"] == second["commit_lsn"] >= second["lsn"] > first["lsn"]


@on_all_versions
def test_auto_takes_the_best_that_the_server_supports(relay: Relay, version: str) -> None:
    (streaming,) = relay.events("streaming")
    names = ("proto_version", "streaming", "messages", "binary", "two_phase", "origin")
    assert {name: streaming[name] for name in names if name in streaming} == _OPTIONS[version]


@pytest.mark.parametrize(
    ("version", "option", "value"),
    [
        ("13", "protocol_version", 2),
        ("14", "protocol_version", 3),
        ("15", "protocol_version", 4),
        ("13", "binary", True),
        ("13", "messages", True),
        ("14", "two_phase", True),
        ("15", "origin", "none"),
    ],
    indirect=["version"],
)
def test_an_option_that_the_server_lacks_is_refused(new_relay: NewRelay, option: str, value: Any) -> None:
    relay = new_relay(source={option: value}).start()
    assert relay.wait_exit() == 2
    assert f"source.{option}" in relay.log[-1]["event"]
