"""Partitions, row filters, column lists, generated columns, and tables that are altered while in use."""

from typing import Any

import pytest

from tests.integration.changes import changes, created, deleted, updated
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import UNDELIVERABLE, WRONG, last_words
from tests.integration.relays import Relay
from tests.integration.servers import on_full_versions

_PARTITIONED = """
CREATE TABLE root (id int PRIMARY KEY, note text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20);
"""


@on_full_versions
def test_published_via_root_rows_of_partitions_are_the_roots(database: Database, new_relay: NewRelay) -> None:
    database.execute(_PARTITIONED)
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE root WITH (publish_via_partition_root = true)")
    relay = new_relay().start().wait_streaming()
    _change_partitions(database)
    relay.caught_up()
    records = relay.records("root")
    assert changes(records) == [
        created({"id": 1}, {"id": 1, "note": "x"}),
        created({"id": 11}, {"id": 11, "note": "x"}),
        *deleted({"id": 1}, {"id": 1}),
        created({"id": 12}, {"id": 12, "note": "x"}),
        ("t", None, None, None),
    ]
    assert {record.json["source"]["table"] for record in records if record.value} == {"root"}
    assert not relay.has_topic(relay.topic("low"))


@on_full_versions
def test_otherwise_rows_of_partitions_are_their_own(database: Database, new_relay: NewRelay) -> None:
    database.execute(_PARTITIONED)
    relay = new_relay().start().wait_streaming()
    _change_partitions(database)
    relay.caught_up()
    assert changes(relay.records("low")) == [
        created({"id": 1}, {"id": 1, "note": "x"}),
        *deleted({"id": 1}, {"id": 1}),
        ("t", None, None, None),
    ]
    assert changes(relay.records("high")) == [
        created({"id": 11}, {"id": 11, "note": "x"}),
        created({"id": 12}, {"id": 12, "note": "x"}),
        ("t", None, None, None),
    ]
    assert not relay.has_topic(relay.topic("root"))


def _change_partitions(database: Database) -> None:
    """Including a row that moves from one partition to the other."""
    database.execute("INSERT INTO root VALUES (1, 'x'), (11, 'x')")
    database.execute("UPDATE root SET id = 12 WHERE id = 1")
    database.execute("TRUNCATE root")


def test_a_partition_may_have_its_columns_in_another_order(database: Database, new_relay: NewRelay) -> None:
    database.execute(_PARTITIONED)
    database.execute("CREATE TABLE other (note text, gone int, id int NOT NULL)")
    database.execute("ALTER TABLE other DROP COLUMN gone")
    database.execute("ALTER TABLE root ATTACH PARTITION other FOR VALUES FROM (20) TO (30)")
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE root WITH (publish_via_partition_root = true)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO root VALUES (1, 'x'), (21, 'x')")
    relay.caught_up()
    assert [record.value[:60] for record in relay.records("root") if record.value] == [
        b'{"before":null,"after":{"id":1,"note":"x"},"source":{"version'[:60],
        b'{"before":null,"after":{"id":21,"note":"x"},"source":{"versio'[:60],
    ]


@pytest.mark.parametrize(
    ("identities", "change", "words"),
    [
        (
            "ALTER TABLE root REPLICA IDENTITY FULL",
            "DELETE FROM root",
            "but its partition public.high does not",
        ),
        (
            "CREATE UNIQUE INDEX notes ON low (note); ALTER TABLE low REPLICA IDENTITY USING INDEX notes",
            "DELETE FROM root",
            "public.root: the server sent an old key without its column id",
        ),
        (
            "ALTER TABLE root REPLICA IDENTITY NOTHING",
            "UPDATE low SET id = 2",
            "public.root: the server sent an old key, although the table has none",
        ),
    ],
    ids=["full root", "index", "no key"],
)
def test_a_partition_with_another_identity_than_its_root_is_refused(
    database: Database, new_relay: NewRelay, identities: str, change: str, words: str
) -> None:
    """Its old rows come as the root's, but don't have the root's identity."""
    database.execute(_PARTITIONED.replace("note text", "note text NOT NULL"))
    database.execute(identities)
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE root WITH (publish_via_partition_root = true)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO low VALUES (1, 'x')")
    relay.caught_up()
    database.execute(change)
    assert words in last_words(relay, UNDELIVERABLE if "old key" in words else WRONG)
    assert len(relay.records("root")) == 1


def test_a_root_that_becomes_full_alone_makes_no_value_null(database: Database, new_relay: NewRelay) -> None:
    """The server calls the old row whole, without describing the root again; it is the partition's key."""
    database.execute(_PARTITIONED)
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE root WITH (publish_via_partition_root = true)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO root VALUES (1, 'x')")
    relay.caught_up()
    database.execute("ALTER TABLE root REPLICA IDENTITY FULL")
    database.execute("DELETE FROM root")
    relay.caught_up()
    assert [record.json["before"] for record in relay.records("root") if record.value] == [None, {"id": 1}]


def test_rows_deleted_before_their_partition_was_full_stay_refused(
    database: Database, new_relay: NewRelay
) -> None:
    """The cure that we print does not help earlier rows: their values are not in the WAL."""
    database.execute(_PARTITIONED)
    database.execute("ALTER TABLE root REPLICA IDENTITY FULL")
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE root WITH (publish_via_partition_root = true)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO root VALUES (1, 'x'), (11, 'x')")
    relay.caught_up()
    database.execute("DELETE FROM low")
    assert "ALTER TABLE public.high REPLICA IDENTITY FULL" in last_words(relay, WRONG)
    database.execute("ALTER TABLE low REPLICA IDENTITY FULL; ALTER TABLE high REPLICA IDENTITY FULL")
    database.execute("INSERT INTO root VALUES (2, NULL); DELETE FROM root WHERE id = 2")
    assert "that identify it in partition public.low" in last_words(relay.start(), UNDELIVERABLE)
    done = relay.command("skip", "--lsn", relay.log[-1]["to_skip"].split()[-1])
    assert done.returncode == 0, done.stderr
    relay.start().wait_streaming().caught_up()
    assert changes(relay.records("root"))[2:] == [
        created({"id": 2}, {"id": 2, "note": None}),
        *deleted({"id": 2}, {"id": 2, "note": None}),
    ]


def test_old_rows_from_when_a_table_was_full_are_relayed(database: Database, new_relay: NewRelay) -> None:
    """The catalogue shows the root and its partitions only as they are when the rows are relayed."""
    database.execute(_PARTITIONED)
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE root WITH (publish_via_partition_root = true)")
    relay = new_relay().start().wait_streaming()
    relay.stop()
    alter = "ALTER TABLE root {0}; ALTER TABLE low {0}; ALTER TABLE high {0}"
    database.execute(alter.format("REPLICA IDENTITY FULL"))
    database.execute("INSERT INTO root VALUES (1, 'x'); DELETE FROM root")
    database.execute(alter.format("REPLICA IDENTITY DEFAULT"))
    relay.start().wait_streaming()
    relay.caught_up()
    assert changes(relay.records("root")) == [
        created({"id": 1}, {"id": 1, "note": "x"}),
        *deleted({"id": 1}, {"id": 1, "note": "x"}),
    ]


@pytest.mark.parametrize("version", ["15", "18"], indirect=True)
def test_a_row_filter_makes_an_update_a_create_or_a_delete(database: Database, new_relay: NewRelay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, size int); ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE t WHERE (size > 10)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1, 5), (2, 15)")
    database.execute("UPDATE t SET size = size + 10")
    database.execute("UPDATE t SET size = size - 10")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 2}, {"id": 2, "size": 15}),
        created({"id": 1}, {"id": 1, "size": 15}),
        updated({"id": 2}, {"id": 2, "size": 25}, before={"id": 2, "size": 15}),
        *deleted({"id": 1}, {"id": 1, "size": 15}),
        updated({"id": 2}, {"id": 2, "size": 15}, before={"id": 2, "size": 25}),
    ]


@pytest.mark.parametrize("version", ["15", "18"], indirect=True)
def test_a_column_list_omits_the_other_columns(database: Database, new_relay: NewRelay) -> None:
    database.execute("CREATE TABLE t (secret text, id int PRIMARY KEY, note text)")
    database.execute("CREATE PUBLICATION pgrelay FOR TABLE t (note, id)")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO t VALUES ('s', 1, 'x')")
    database.execute("UPDATE t SET secret = 'changed'")
    database.execute("DELETE FROM t")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 1}, {"id": 1, "note": "x"}),
        updated({"id": 1}, {"id": 1, "note": "x"}),
        *deleted({"id": 1}, {"id": 1}),
    ]


@pytest.mark.parametrize(
    ("version", "options", "after"),
    [
        ("14", "", {"id": 1}),
        ("18", "", {"id": 1}),
        ("18", "WITH (publish_generated_columns = stored)", {"id": 1, "twice": 2}),
    ],
    indirect=["version"],
)
def test_generated_columns_are_absent_unless_published(
    database: Database, new_relay: NewRelay, version: str, options: str, after: dict[str, Any]
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)")
    if version == "18":
        database.execute("ALTER TABLE t ADD thrice int GENERATED ALWAYS AS (id * 3) VIRTUAL")
    database.execute(f"CREATE PUBLICATION pgrelay FOR TABLE t {options}")
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO t VALUES (1)")
    relay.caught_up()
    assert changes(relay.records("t")) == [created({"id": 1}, after)]


@on_full_versions
def test_each_row_has_the_columns_at_the_time_of_its_write(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text)")
    database.execute("INSERT INTO t VALUES (1, '1')")
    database.execute("ALTER TABLE t ADD size int DEFAULT 7")
    database.execute("INSERT INTO t VALUES (2, '2')")
    database.execute("ALTER TABLE t ALTER note TYPE int USING note::int")
    database.execute("INSERT INTO t VALUES (3, 3)")
    database.execute("ALTER TABLE t RENAME note TO remark")
    database.execute("INSERT INTO t VALUES (4, 4)")
    database.execute("ALTER TABLE t DROP remark")
    database.execute("UPDATE t SET size = 8 WHERE id = 1")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 1}, {"id": 1, "note": "1"}),
        created({"id": 2}, {"id": 2, "note": "2", "size": 7}),
        created({"id": 3}, {"id": 3, "note": 3, "size": 7}),
        created({"id": 4}, {"id": 4, "remark": 4, "size": 7}),
        updated({"id": 1}, {"id": 1, "size": 8}),
    ]


@on_full_versions
def test_each_row_has_its_columns_inside_transactions_and_after_rollbacks(
    database: Database, relay: Relay
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text)")
    database.execute(
        "BEGIN;"
        "INSERT INTO t VALUES (1, '1'); ALTER TABLE t ADD size int; INSERT INTO t VALUES (2, '2', 2);"
        "SAVEPOINT s; ALTER TABLE t ADD undone int; INSERT INTO t VALUES (3, '3', 3, 3); ROLLBACK TO s;"
        "INSERT INTO t VALUES (4, '4', 4);"
        "ALTER TABLE t ALTER note TYPE int USING note::int; UPDATE t SET size = 1 WHERE id = 1;"
        "COMMIT"
    )
    database.execute("BEGIN; ALTER TABLE t DROP size; INSERT INTO t VALUES (5, 5); ROLLBACK")
    database.execute("INSERT INTO t VALUES (6, 6, 6)")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 1}, {"id": 1, "note": "1"}),
        created({"id": 2}, {"id": 2, "note": "2", "size": 2}),
        created({"id": 4}, {"id": 4, "note": "4", "size": 4}),
        updated({"id": 1}, {"id": 1, "note": 1, "size": 1}),
        created({"id": 6}, {"id": 6, "note": 6, "size": 6}),
    ]


@on_full_versions
def test_a_renamed_or_moved_table_has_another_topic(database: Database, relay: Relay) -> None:
    database.execute("CREATE SCHEMA elsewhere; CREATE TABLE t (id int PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute(
        "BEGIN; INSERT INTO t VALUES (2); ALTER TABLE t RENAME TO u; INSERT INTO u VALUES (3); COMMIT"
    )
    database.execute("ALTER TABLE u SET SCHEMA elsewhere; INSERT INTO elsewhere.u VALUES (4)")
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'another')")
    relay.caught_up()
    assert changes(relay.records("t")) == [
        created({"id": 1}, {"id": 1}),
        created({"id": 2}, {"id": 2}),
        created({"id": 1}, {"id": 1, "note": "another"}),
    ]
    assert changes(relay.records("u")) == [created({"id": 3}, {"id": 3})]
    assert changes(relay.records("u", schema="elsewhere")) == [created({"id": 4}, {"id": 4})]


@on_full_versions
def test_a_schema_renamed_during_a_large_transaction_has_another_topic(
    database: Database, new_relay: NewRelay
) -> None:
    database.execute("CREATE SCHEMA here; CREATE TABLE here.t (id int PRIMARY KEY, note text)")
    database.execute("CREATE TABLE more (id int PRIMARY KEY, note text)")
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    relay = new_relay(source={"streaming": "on"}).start().wait_streaming()
    with database.connect() as large:
        rows = "SELECT i, repeat('x', 100) FROM generate_series(10, 999) i"
        # Rows sent after the rename belong to another table; otherwise the server describes the table again.
        large.execute(f"BEGIN; INSERT INTO here.t {rows}; INSERT INTO more {rows}".encode())
        relay.wait_for(lambda: relay.metric("pgrelay_open_transactions") == 1, "a transaction half sent")
        database.execute("ALTER SCHEMA here RENAME TO there")
        database.execute("INSERT INTO there.t VALUES (1, 'x')")
        large.execute("COMMIT")
    database.execute("INSERT INTO there.t VALUES (2, 'y')")
    relay.caught_up()
    assert relay.ids("t", schema="there") == [1, 2]


def test_a_table_created_and_dropped_while_the_relay_is_down_is_relayed(
    database: Database, relay: Relay
) -> None:
    relay.stop()
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    database.execute("CREATE TABLE t (id int PRIMARY KEY, mood mood); INSERT INTO t VALUES (1, 'glad')")
    database.execute("DROP TABLE t; DROP TYPE mood")
    relay.start()
    relay.caught_up()
    assert changes(relay.records("t")) == [created({"id": 1}, {"id": 1, "mood": "glad"})]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_dropped_type_is_known_from_earlier_rows(database: Database, relay: Relay, identity: str) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    database.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, moods mood[]); ALTER TABLE t REPLICA IDENTITY {identity};"
        "INSERT INTO t VALUES (1, '{glad}')"
    )
    relay.caught_up()
    database.execute(
        "BEGIN; ALTER TABLE t ADD note text; INSERT INTO t VALUES (2, '{sad,glad}');"
        "ALTER TABLE t ALTER moods TYPE text[] USING moods::text[]; DROP TYPE mood; COMMIT"
    )
    relay.caught_up()
    assert [record.json["after"]["moods"] for record in relay.records("t")] == [["glad"], ["sad", "glad"]]
