"""How a table's replica identity decides keys and old rows."""

import psycopg
import pytest

from tests.integration.changes import changes, created, deleted, updated
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay


def test_default_keys_by_the_primary_key_in_table_order(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (a int, note text, b int, PRIMARY KEY (b, a))")
    database.execute("INSERT INTO t VALUES (1, 'x', 2)")
    database.execute("UPDATE t SET note = 'y'")
    database.execute("UPDATE t SET b = 3")
    database.execute("DELETE FROM t")
    relay.caught_up()
    records = relay.records("t")
    assert changes(records) == [
        created({"a": 1, "b": 2}, {"a": 1, "note": "x", "b": 2}),
        updated({"a": 1, "b": 2}, {"a": 1, "note": "y", "b": 2}),
        *deleted({"a": 1, "b": 2}, {"a": 1, "b": 2}),
        created({"a": 1, "b": 3}, {"a": 1, "note": "y", "b": 3}),
        *deleted({"a": 1, "b": 3}, {"a": 1, "b": 3}),
    ]
    assert records[0].key == b'{"a":1,"b":2}'


def test_full_gives_the_old_row_and_keys_by_the_primary_key(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (note text, id int PRIMARY KEY, gone int)")
    database.execute("ALTER TABLE t DROP COLUMN gone, REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t VALUES (NULL, 1)")
    database.execute("UPDATE t SET note = 'x'")
    database.execute("UPDATE t SET id = 2, note = 'y'")
    database.execute("DELETE FROM t")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 1}, {"note": None, "id": 1}),
        updated({"id": 1}, {"note": "x", "id": 1}, before={"note": None, "id": 1}),
        *deleted({"id": 1}, {"note": "x", "id": 1}),
        created({"id": 2}, {"note": "y", "id": 2}),
        *deleted({"id": 2}, {"note": "y", "id": 2}),
    ]


def test_full_without_a_primary_key_has_no_key_and_one_partition(
    database: Database, new_relay: NewRelay
) -> None:
    relay = new_relay(sink={"partitions": 3}).start().wait_streaming()
    database.execute("CREATE TABLE t (id int, note text); ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x')")
    database.execute("UPDATE t SET id = 2 WHERE ctid = '(0,1)'")
    database.execute("DELETE FROM t WHERE id = 1")
    relay.caught_up()
    records = relay.records("t")
    row = {"id": 1, "note": "x"}
    assert changes(records) == [
        created(None, row),
        created(None, row),
        updated(None, {"id": 2, "note": "x"}, before=row),
        ("d", None, row, None),
    ]
    assert len({record.partition for record in records}) == 1


def test_a_primary_key_added_later_keys_the_following_rows(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (id int, note text); ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t VALUES (1, 'x')")
    relay.caught_up()
    database.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    database.execute("INSERT INTO t VALUES (2, 'y')")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created(None, {"id": 1, "note": "x"}),
        created({"id": 2}, {"id": 2, "note": "y"}),
    ]


def test_using_index_keys_by_the_index_columns(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL, note text)")
    database.execute("CREATE UNIQUE INDEX by_code ON t (code)")
    database.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX by_code")
    database.execute("INSERT INTO t VALUES (1, 'a', 'x')")
    database.execute("UPDATE t SET id = 2")
    database.execute("UPDATE t SET code = 'b'")
    database.execute("DELETE FROM t")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"code": "a"}, {"id": 1, "code": "a", "note": "x"}),
        updated({"code": "a"}, {"id": 2, "code": "a", "note": "x"}),
        *deleted({"code": "a"}, {"code": "a"}),
        created({"code": "b"}, {"id": 2, "code": "b", "note": "x"}),
        *deleted({"code": "b"}, {"code": "b"}),
    ]


@pytest.mark.parametrize(
    "table", ["(id int)", "(id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING"]
)
def test_without_an_identity_inserts_still_flow(database: Database, relay: Relay, table: str) -> None:
    database.execute(f"CREATE TABLE t {table}")
    database.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="replica identity"):
        database.execute("UPDATE t SET id = 2")
    database.execute("TRUNCATE t")
    relay.caught_up()
    assert changes(relay.records("t")) == [created(None, {"id": 1}), ("t", None, None, None)]


def test_a_changed_identity_applies_from_the_next_change(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text)")
    database.execute("INSERT INTO t VALUES (1, 'x')")
    database.execute("UPDATE t SET note = 'y'")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("UPDATE t SET note = 'z'")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 1}, {"id": 1, "note": "x"}),
        updated({"id": 1}, {"id": 1, "note": "y"}),
        updated({"id": 1}, {"id": 1, "note": "z"}, before={"id": 1, "note": "y"}),
    ]
