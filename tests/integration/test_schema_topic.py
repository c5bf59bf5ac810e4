"""The schema topic with a real server: one record before the rows that need it, none after a rollback."""

from typing import Any

import psycopg
import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.topics import Record

PEOPLE = "CREATE TABLE people (id int PRIMARY KEY, name text)"


@pytest.fixture
def people(database: Database) -> None:
    database.execute(PEOPLE)


def schemas(relay: Relay) -> list[Record]:
    return relay.read(f"{relay.prefix}.schema")


def shapes(relay: Relay) -> list[list[str]]:
    """The columns of every announced schema, in order."""
    return [names(record.json) for record in schemas(relay)]


def names(schema: Any) -> list[str]:
    return [column["name"] for column in schema["columns"]]


def assert_rows_fit(relay: Relay, table: str) -> None:
    """Assert that each row has the columns of the latest schema at or before its place."""
    told = [record.json for record in schemas(relay)]
    for record in relay.records(table):
        if record.json is None or record.json["after"] is None:
            continue
        source = record.json["source"]
        at = source["commit_lsn"], source["seq"]
        in_force = [schema for schema in told if (schema["lsn"], schema["seq"]) <= at]
        assert names(in_force[-1]) == list(record.json["after"]), at


@pytest.mark.usefixtures("people")
def test_a_table_is_announced_once_with_all_its_columns(database: Database, relay: Relay) -> None:
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    database.execute("INSERT INTO people VALUES (2, 'Bob')")
    relay.caught_up()
    (record,) = schemas(relay)
    with database.connect() as connection:
        oid = scalar(connection, "SELECT 'people'::regclass::oid::int")
        systemid = scalar(connection, "SELECT system_identifier::text FROM pg_control_system()")
    assert record.json_key == {"topic": relay.topic("people")}
    assert record.json == {
        "systemid": systemid,
        "topic": relay.topic("people"),
        "schema": "public",
        "table": "people",
        "relation_id": oid,
        "replica_identity": "default",
        "lsn": relay.records("people")[0].json["source"]["commit_lsn"],
        "seq": 0,
        "columns": [
            {
                "name": "id",
                "type_oid": 23,
                "type_name": "int4",
                "type_modifier": -1,
                "key": True,
                "encoding": "integer",
            },
            {
                "name": "name",
                "type_oid": 25,
                "type_name": "text",
                "type_modifier": -1,
                "key": False,
                "encoding": "string",
            },
        ],
    }


def scalar(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_types_have_their_modifiers_and_domains_their_base_types(database: Database, relay: Relay) -> None:
    database.execute("CREATE DOMAIN price AS numeric(8,2)")
    database.execute("CREATE TYPE mood AS ENUM ('sad')")
    database.execute(
        "CREATE TABLE typed "
        "(p price, m mood, v varchar(5), n numeric(5,2)[], t timestamptz(3), j jsonb, l price[])"
    )
    database.execute("INSERT INTO typed VALUES (1)")
    relay.caught_up()
    (record,) = schemas(relay)
    assert [
        (column["type_name"], column["type_modifier"], column["encoding"])
        for column in record.json["columns"]
    ] == [
        ("numeric", (8 << 16 | 2) + 4, "string"),
        ("mood", -1, "string"),
        ("varchar", 9, "string"),
        ("_numeric", (5 << 16 | 2) + 4, "array<string>"),
        ("timestamptz", 3, "iso-timestamp"),
        ("jsonb", -1, "string"),
        ("_numeric", (8 << 16 | 2) + 4, "array<string>"),
    ]


def test_types_of_extensions_have_their_modifiers(database: Database, relay: Relay) -> None:
    """Otherwise geometry(Point,4326) would look like geometry(Point,3857), and mirrors keep old values."""
    function = "CREATE FUNCTION vector_{}({}) RETURNS {} AS 'varchar{}' LANGUAGE internal IMMUTABLE STRICT"
    database.execute("CREATE TYPE vector")
    database.execute(function.format("in", "cstring, oid, int", "vector", "in"))
    database.execute(function.format("out", "vector", "cstring", "out"))
    database.execute(
        "CREATE TYPE vector (INPUT = vector_in, OUTPUT = vector_out, "
        "TYPMOD_IN = varchartypmodin, TYPMOD_OUT = varchartypmodout, LIKE = text)"
    )
    database.execute("CREATE TABLE typed (id int PRIMARY KEY, v vector(3), vs vector(3)[], every vector)")
    database.execute("INSERT INTO typed VALUES (1, 'abc', '{abc}', 'abcd')")
    relay.caught_up()
    (record,) = schemas(relay)
    told = [(column["type_name"], column["type_modifier"]) for column in record.json["columns"]]
    assert told == [("int4", -1), ("vector", 7), ("_vector", 7), ("vector", -1)]


@pytest.mark.usefixtures("people")
def test_a_change_between_transactions_is_announced_before_its_first_row(
    database: Database, relay: Relay
) -> None:
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    for change in (
        "ADD COLUMN age int",
        "RENAME name TO full_name",
        "ALTER age TYPE bigint",
        "DROP COLUMN full_name",
    ):
        database.execute(f"ALTER TABLE people {change}")
    assert_no_news_without_rows(relay)
    database.execute("INSERT INTO people VALUES (2, 7)")
    relay.caught_up()
    first, second = schemas(relay)
    assert [names(first.json), names(second.json)] == [["id", "name"], ["id", "age"]]
    assert second.json["columns"][1]["type_name"] == "int8"
    assert first.json["lsn"] < second.json["lsn"]
    assert_rows_fit(relay, "people")


def assert_no_news_without_rows(relay: Relay) -> None:
    """Assert that a change without any row after it is not announced yet."""
    relay.caught_up()
    assert len(schemas(relay)) == 1


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("streaming", ["off", "on"])
def test_changes_inside_a_transaction_are_announced_at_their_place(
    database: Database, new_relay: NewRelay, streaming: str
) -> None:
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    relay = new_relay(source={"streaming": streaming}).start().wait_streaming()
    database.execute(
        "BEGIN; INSERT INTO people SELECT g, repeat('x', 200) FROM generate_series(1, 1000) g;"
        "ALTER TABLE people ADD COLUMN age int;"
        "INSERT INTO people SELECT g, repeat('x', 200), g FROM generate_series(1001, 2000) g;"
        "ALTER TABLE people DROP COLUMN name; INSERT INTO people VALUES (0, 0); COMMIT"
    )
    relay.caught_up()
    assert shapes(relay) == [["id", "name"], ["id", "name", "age"], ["id", "age"]]
    assert [record.json["seq"] for record in schemas(relay)] == [0, 1000, 2000]
    assert len(relay.records("people")) == 2001
    assert_rows_fit(relay, "people")


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("streaming", ["off", "on"])
def test_a_change_that_is_rolled_back_is_never_announced(
    database: Database, new_relay: NewRelay, streaming: str
) -> None:
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
    relay = new_relay(source={"streaming": streaming}).start().wait_streaming()
    rows = "SELECT g, repeat('x', 200), g FROM generate_series(1, 1000) g"
    undone = f"ALTER TABLE people ADD COLUMN undone int; INSERT INTO people {rows};"
    database.execute(f"BEGIN; {undone} ROLLBACK")
    database.execute(
        f"BEGIN; SAVEPOINT s; {undone} ROLLBACK TO s; INSERT INTO people VALUES (1, 'Ada'); COMMIT"
    )
    relay.caught_up()
    assert shapes(relay) == [["id", "name"]]
    assert len(relay.records("people")) == 1


@pytest.mark.usefixtures("people")
def test_a_restart_announces_again_what_it_needs(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    relay.caught_up()
    assert relay.stop() == 0
    relay.start().wait_streaming()
    database.execute("INSERT INTO people VALUES (2, 'Bob')")
    relay.caught_up()
    first, again = (record.json for record in schemas(relay))
    assert again == first | {"lsn": relay.records("people")[1].json["source"]["commit_lsn"]}
    assert_rows_fit(relay, "people")


@pytest.mark.usefixtures("people")
def test_a_changed_replica_identity_or_key_is_announced(database: Database, relay: Relay) -> None:
    for change in ("REPLICA IDENTITY FULL", "DROP CONSTRAINT people_pkey"):
        database.execute("INSERT INTO people VALUES (1, 'Ada'); DELETE FROM people")
        relay.caught_up()  # the primary key is looked up when the change arrives
        database.execute(f"ALTER TABLE people {change}")
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    relay.caught_up()
    told = [record.json for record in schemas(relay)]
    assert [it["replica_identity"] for it in told] == ["default", "full", "full"]
    keys = [[column["name"] for column in it["columns"] if column["key"]] for it in told]
    assert keys == [["id"], ["id"], []]


@pytest.mark.usefixtures("people")
def test_a_renamed_table_is_announced_under_its_new_topic(database: Database, relay: Relay) -> None:
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    database.execute("ALTER TABLE people RENAME TO persons")
    database.execute("INSERT INTO persons VALUES (2, 'Bob')")
    relay.caught_up()
    told = [(record.json_key["topic"], record.json["table"]) for record in schemas(relay)]
    assert told == [(relay.topic("people"), "people"), (relay.topic("persons"), "persons")]
    assert len({record.json["relation_id"] for record in schemas(relay)}) == 1


@pytest.mark.usefixtures("people")
def test_tables_are_announced_in_the_order_of_their_first_rows(database: Database, relay: Relay) -> None:
    database.execute("CREATE TABLE pets (id int)")
    database.execute("INSERT INTO pets VALUES (1); INSERT INTO people VALUES (1, 'Ada')")
    relay.caught_up()
    assert [record.json["table"] for record in schemas(relay)] == ["pets", "people"]
    assert {record.partition for record in schemas(relay)} == {0}


@pytest.mark.usefixtures("people")
def test_a_prepared_transaction_has_the_schema_of_its_own_time(
    database: Database, new_relay: NewRelay
) -> None:
    relay = new_relay(source={"two_phase": True}).start().wait_streaming()
    database.execute("CREATE TABLE pets (id int)")
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    database.execute("BEGIN; INSERT INTO people VALUES (2, 'Bob'); PREPARE TRANSACTION 'g'")
    relay.caught_up()
    assert shapes(relay) == [["id", "name"]]
    database.execute("COMMIT PREPARED 'g'")
    database.execute("ALTER TABLE people ADD COLUMN age int; INSERT INTO people VALUES (3, 'Cy', 7)")
    relay.caught_up()
    assert shapes(relay) == [["id", "name"], ["id", "name", "age"]]
    assert_rows_fit(relay, "people")


@pytest.mark.usefixtures("people")
def test_a_change_inside_a_prepared_transaction_is_announced_at_its_commit(
    database: Database, new_relay: NewRelay
) -> None:
    relay = new_relay(source={"two_phase": True}).start().wait_streaming()
    database.execute("INSERT INTO people VALUES (1, 'Ada')")
    for gid, end in (("a", "ROLLBACK"), ("b", "COMMIT")):
        database.execute(
            "BEGIN; ALTER TABLE people ADD COLUMN age int;"
            f"INSERT INTO people VALUES (2, 'Bob', 7); PREPARE TRANSACTION '{gid}'"
        )
        relay.caught_up()
        assert shapes(relay) == [["id", "name"]]
        database.execute(f"{end} PREPARED '{gid}'")
    database.execute("INSERT INTO people VALUES (3, 'Cy', 8)")
    relay.caught_up()
    assert shapes(relay) == [["id", "name"], ["id", "name", "age"]]
    assert_rows_fit(relay, "people")
