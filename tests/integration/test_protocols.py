"""The ways in which a server can send a transaction: the records are always the same bytes."""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from pgrelay.lsn import parse_lsn
from tests.integration import interleaved
from tests.integration.changes import changes, fold, place
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.servers import on_full_versions
from tests.integration.waiting import wait_until

# Protocol versions with their streaming modes, by the first server version that has them.
_WAYS = [
    (1, "off", 14),
    (2, "off", 14),
    (2, "on", 14),
    (3, "off", 16),
    (3, "on", 16),
    (4, "off", 16),
    (4, "on", 16),
    (4, "parallel", 16),
]
_TABLES = ("t", "altered", "grown")

# What differs between two relays of one slot position: their names, and when they encoded a record.
_OWN = re.compile(rb'"name":"\w+"|(?<="op":".",)"ts_ms":\d+,"ts_us":\d+')


@on_full_versions
def test_every_protocol_and_streaming_mode_gives_the_same_records(
    database: Database, new_relay: NewRelay, version: str
) -> None:
    interleaved.create_tables(database)
    database.execute("CREATE PUBLICATION pgrelay FOR ALL TABLES")
    relays = _relays(new_relay, int(version))
    for relay in relays.values():
        relay.start()
    for relay in relays.values():
        relay.wait_streaming()
    interleaved.run(database)
    plain = relays.pop("1_off")
    plain.caught_up()
    expected = _told(plain)
    assert {table: fold(plain.records(table)) for table in _TABLES} == {
        "t": _rows(database, "t"),
        "altered": _rows(database, "altered"),
        "grown": interleaved.GROWN,
    }
    for name, relay in relays.items():
        relay.caught_up()
        assert _first_difference(expected, _told(relay)) is None, name
        if "off" not in name:
            _assert_streamed(relay)


def _relays(new_relay: NewRelay, version: int) -> dict[str, Relay]:
    """A relay for each mode, and more with settings that must not change the records either."""
    ways: dict[str, dict[str, Any]] = {
        f"{protocol}_{streaming}": {"protocol_version": protocol, "streaming": streaming}
        for protocol, streaming, since in _WAYS
        if version >= since
    }
    ways["binary"] = {"binary": True}
    if version >= 15:
        ways["two_phase"] = {"two_phase": True}
        ways["two_phase_off"] = {"two_phase": True, "streaming": "off"}
    memory = {"memory_mb": 1}
    return {name: new_relay(f"_{name}", source=source, transactions=memory) for name, source in ways.items()}


def _told(relay: Relay) -> list[tuple[bytes | None, bytes | None, Any]]:
    records = [record for table in (*_TABLES, "many") for record in relay.records(table)]
    return [(record.key, _without_own(record.value), record.headers) for record in records]


def _without_own(value: bytes | None) -> bytes | None:
    return None if value is None else _OWN.sub(b"", value)


def _first_difference(left: list[Any], right: list[Any]) -> object:
    """None without a difference. Nobody would read a full comparison of thousands of records."""
    for index, pair in enumerate(zip(left, right, strict=False)):
        if pair[0] != pair[1]:
            return index, pair
    return None if len(left) == len(right) else (len(left), len(right))


def _rows(database: Database, table: str) -> list[dict[str, Any]]:
    with database.connect() as connection:
        return [row for (row,) in connection.execute(f"SELECT to_jsonb(r) FROM {table} r ORDER BY id")]


def _assert_streamed(relay: Relay) -> None:
    """Assert that the workload fulfils its purpose: the server streamed, and the relay spilled to disk."""
    query = "SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = %s"
    with relay.database.connect() as connection:
        wait_until(
            lambda: connection.execute(query, [relay.prefix]).fetchone() == (True,),
            f"the server to tell that it has streamed to {relay.prefix}",
        )
    relay.wait_for(lambda: relay.metric("pgrelay_spooled_bytes_total") > 0, "the spool in the metrics")


@on_full_versions
def test_a_transaction_that_breaks_streaming_arrives_with_streaming_off(
    database: Database, new_relay: NewRelay
) -> None:
    """A table altered, rolled back to a savepoint, and altered again, each time with many rows."""
    interleaved.create_tables(database)
    relay = new_relay(source={"streaming": "off"}).start().wait_streaming()
    database.execute(
        "BEGIN; INSERT INTO altered SELECT generate_series(1, 500); SAVEPOINT s;"
        "ALTER TABLE altered ADD undone int; INSERT INTO altered SELECT generate_series(501, 1000);"
        "ROLLBACK TO s; INSERT INTO altered SELECT generate_series(501, 1000);"
        "ALTER TABLE altered ADD kept int; INSERT INTO altered SELECT generate_series(1001, 1500), 8; COMMIT"
    )
    relay.caught_up()
    assert fold(relay.records("altered")) == [
        {"id": number} | ({"kept": 8} if number > 1000 else {}) for number in range(1, 1501)
    ]


@on_full_versions
def test_logical_messages_arrive_in_order(database: Database, new_relay: NewRelay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay().start().wait_streaming()
    with database.connect() as connection:
        connection.execute("BEGIN; INSERT INTO t VALUES (1)")
        connection.execute("SELECT pg_logical_emit_message(true, 'in', 'transactional')")
        at_once = connection.execute("SELECT pg_logical_emit_message(false, 'out', '\\x00ff'::bytea)::text")
        (at_once_lsn,) = at_once.fetchone() or ("",)
        connection.execute("INSERT INTO t VALUES (2); COMMIT")
    relay.caught_up()
    out, into = sorted(relay.read(f"{relay.prefix}.message", 2), key=place)
    assert [out.json_key, into.json_key] == [{"prefix": "out"}, {"prefix": "in"}]
    assert changes([out, into]) == [("m", {"prefix": "out"}, None, None), ("m", {"prefix": "in"}, None, None)]
    assert out.json["message"] == {"prefix": "out", "content": b64encode(b"\x00\xff").decode()}
    assert into.json["message"] == {"prefix": "in", "content": b64encode(b"transactional").decode()}
    assert out.json["source"]["txId"] is None
    assert place(out) == (parse_lsn(at_once_lsn), 0)
    first, second = relay.records("t")
    assert [place(record)[1] for record in (first, into, second)] == [0, 1, 2]
    assert len({place(record)[0] for record in (first, into, second)}) == 1


@on_full_versions
def test_only_transactional_messages_are_rolled_back(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay().start().wait_streaming()
    database.execute(
        "BEGIN; SELECT pg_logical_emit_message(true, 'undone', 'x');"
        "SELECT pg_logical_emit_message(false, 'stays', 'x'); ROLLBACK"
    )
    relay.caught_up()
    assert [record.json_key for record in relay.read(f"{relay.prefix}.message", 1)] == [{"prefix": "stays"}]


def test_messages_can_be_switched_off(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(source={"messages": False}).start().wait_streaming()
    database.execute("SELECT pg_logical_emit_message(false, 'p', 'x')")
    database.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert len(relay.records("t")) == 1
    assert not relay.has_topic(f"{relay.prefix}.message")


@pytest.mark.parametrize("origin", ["any", "none"])
@pytest.mark.parametrize("version", ["16", "18"], indirect=True)
def test_replicated_rows_are_skipped_with_origin_none(
    database: Database, new_relay: NewRelay, origin: str
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    relay = new_relay(source={"origin": origin}).start().wait_streaming()
    with replicating(database) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    database.execute("INSERT INTO t VALUES (2)")
    relay.caught_up()
    origins = {record.json["after"]["id"]: record.json["source"]["origin"] for record in relay.records("t")}
    assert origins == ({2: None} if origin == "none" else {1: database.name, 2: None})


@on_full_versions
def test_replicated_rows_of_streamed_transactions_have_their_origin(
    database: Database, new_relay: NewRelay
) -> None:
    interleaved.create_tables(database)
    relay = new_relay().start().wait_streaming()
    with replicating(database) as connection:
        connection.execute("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 300) g")
    relay.caught_up()
    records = relay.records("t")
    assert len(records) == 300
    assert {record.json["source"]["origin"] for record in records} == {database.name}


@contextmanager
def replicating(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A transaction of a session that replicates from elsewhere; its origin has the database's name."""
    with database.connect() as connection:
        connection.execute("SELECT pg_replication_origin_create(%s)", [database.name])
        connection.execute("SELECT pg_replication_origin_session_setup(%s)", [database.name])
        try:
            with connection.transaction():
                connection.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
                yield connection
        finally:
            connection.execute("SELECT pg_replication_origin_session_reset()")
            connection.execute("SELECT pg_replication_origin_drop(%s)", [database.name])
