"""Mistakes in the setup end the relay with one line that says what to do: row 40 of docs/guarantees.md."""

import re
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewDatabase, NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WRONG, last_words
from tests.integration.faults.own_servers import own_postgres
from tests.integration.faults.slots import exists


def no_publications(database: Database) -> bool:
    with database.connect() as connection:
        return connection.execute("SELECT FROM pg_publication").fetchone() is None


SLOTS = {
    "plugin": ("pg_create_logical_replication_slot(%s, 'test_decoding')", "uses plugin test_decoding"),
    "physical": ("pg_create_physical_replication_slot(%s)", "is a physical slot"),
}


@pytest.mark.parametrize(("create", "complaint"), SLOTS.values(), ids=SLOTS)
def test_a_slot_of_another_kind_ends_the_relay(
    database: Database, new_relay: NewRelay, prefix: str, create: str, complaint: str
) -> None:
    with database.connect() as connection:
        connection.execute(f"SELECT {create}".encode(), [prefix])
        try:
            words = last_words(new_relay().start(), WRONG)
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [prefix])
    assert f"source.slot: {prefix} {complaint}" in words


def test_a_slot_of_another_database_ends_the_relay(
    new_database: NewDatabase, new_relay: NewRelay, prefix: str
) -> None:
    other = new_database()
    other.execute(f"SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')")
    assert f"belongs to database {other.name}" in last_words(new_relay().start(), WRONG)


@own_postgres(wal_level="replica")
def test_a_server_without_logical_wal_ends_the_relay(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(source={"dsn": database.dsn}).start()
    words = last_words(relay, WRONG)
    assert "since wal_level is replica; ALTER SYSTEM SET wal_level = logical, and restart" in words
    assert no_publications(database)


@pytest.mark.parametrize("version", ["13"], indirect=True)
def test_streaming_from_a_server_without_it_ends_the_relay(new_relay: NewRelay) -> None:
    relay = new_relay(source={"streaming": "on"}).start()
    assert "source.streaming: on needs protocol version 2" in last_words(relay, WRONG)


WRONG_DSNS = {
    "database": ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
    "role": ({"user": "nobody"}, 'role "nobody" does not exist'),
    "ssl": ({"sslmode": "require"}, "does not support SSL"),
    "options": ({"options": "-c nonsense=x"}, 'unrecognized configuration parameter "nonsense"'),
    "value": ({"options": "-c work_mem=x"}, 'invalid value for parameter "work_mem"'),
}


@pytest.mark.parametrize(("changed", "complaint"), WRONG_DSNS.values(), ids=WRONG_DSNS)
def test_an_unknown_name_in_the_dsn_ends_the_relay(
    database: Database, new_relay: NewRelay, changed: dict[str, str], complaint: str
) -> None:
    relay = new_relay(source={"dsn": make_conninfo(database.dsn, **changed)}).start()
    assert complaint in last_words(relay, WRONG)


def test_a_missing_table_ends_the_relay(database: Database, new_relay: NewRelay) -> None:
    relay = new_relay(source={"dsn": database.dsn, "tables": ["public.nope"]}).start()
    words = last_words(relay, WRONG)
    assert words.startswith("source.tables: publication ")
    refused = 'can\'t be created: relation "public.nope" does not exist; name existing tables there'
    assert refused in words


@own_postgres()
def test_a_wrong_postgres_password_ends_the_relay(
    server: Postgres, database: Database, new_relay: NewRelay
) -> None:
    database.execute("CREATE ROLE relay LOGIN REPLICATION PASSWORD 'right'")
    (server.data / "pg_hba.conf").write_text("host all relay all scram-sha-256\nhost all all all trust\n")
    server.restart()
    for password, complaint in ("", "no password supplied"), ("wrong", "password authentication failed"):
        relay = new_relay(source={"dsn": make_conninfo(database.dsn, user="relay", password=password)})
        assert complaint in last_words(relay.start(), WRONG)


@own_postgres()
def test_a_password_file_that_is_replaced_a_moment_late_is_waited_for(
    server: Postgres, database: Database, new_relay: NewRelay, tmp_path: Path
) -> None:
    database.execute("CREATE ROLE relay SUPERUSER LOGIN REPLICATION PASSWORD 'old'")
    (server.data / "pg_hba.conf").write_text("host all relay all scram-sha-256\nhost all all all trust\n")
    server.restart()
    file = tmp_path / "pgpass"

    def write(password: str) -> None:
        file.write_text(f"*:*:*:*:{password}\n")
        file.chmod(0o600)

    write("old")
    dsn = make_conninfo(database.dsn, user="relay", passfile=str(file))
    relay = new_relay(source={"dsn": dsn}).start().wait_streaming()
    database.execute("ALTER ROLE relay PASSWORD 'new'")
    server.restart()
    waiting = relay.wait_event("waiting, will go on by itself")
    while "password retrieved from file" not in waiting["reason"]:
        waiting = relay.wait_event("waiting, will go on by itself", len(relay.events(waiting["event"])) + 1)
    write("new")
    relay.wait_streaming()


@pytest.mark.parametrize("version", ["14", "18"], indirect=True)
def test_a_role_without_replication_ends_the_relay(
    database: Database, new_relay: NewRelay, prefix: str
) -> None:
    database.execute(f"CREATE ROLE {prefix} LOGIN")
    try:
        relay = new_relay(source={"dsn": make_conninfo(database.dsn, user=prefix)}).start()
        assert re.search("role.* WAL ?sender", last_words(relay, WRONG), re.IGNORECASE)
    finally:
        database.execute(f"DROP ROLE {prefix}")


WRONG_OPTIONS = {
    "unknown": {"no.such.option": "1"},
    "value": {"socket.max.fails": "soon"},
}


@pytest.mark.parametrize("options", WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_an_invalid_kafka_option_ends_the_relay(
    database: Database, new_relay: NewRelay, options: dict[str, str]
) -> None:
    """And no slot is created that nobody would read."""
    relay = new_relay(sink={"kafka": options}).start()
    [name] = options
    assert name in last_words(relay, WRONG)
    assert not exists(database, relay.prefix)


def test_topics_that_can_not_be_created_end_the_relay(database: Database, new_relay: NewRelay) -> None:
    """No slot is created then either."""
    relay = new_relay(sink={"replication_factor": 3}).start()
    assert "replication" in last_words(relay, WRONG).lower()
    assert not exists(database, relay.prefix)


REFUSED_LATE = {
    "spool": ({"transactions": {"spool_dir": "/dev/null"}}, "transactions.spool_dir: /dev/null"),
    "topics": ({"records": {"topic": "{prefix}.{table}"}}, "public.t"),
}


@pytest.mark.parametrize(("sections", "complaint"), REFUSED_LATE.values(), ids=REFUSED_LATE)
def test_what_refuses_a_start_refuses_it_before_anything_is_created(
    database: Database, new_relay: NewRelay, sections: dict[str, dict[str, str]], complaint: str
) -> None:
    """A slot that nobody reads would hold back WAL for ever, and a publication can refuse updates."""
    database.execute("CREATE SCHEMA other; CREATE TABLE t (id int); CREATE TABLE other.t (id int)")
    relay = new_relay(source={"dsn": database.dsn}, **sections).start()
    assert complaint in last_words(relay, WRONG)
    assert not exists(database, relay.prefix)
    assert no_publications(database)


def test_readyz_says_that_the_slot_waits_for_a_transaction(database: Database, new_relay: NewRelay) -> None:
    with database.connect() as connection:
        connection.execute(b"BEGIN")
        connection.execute(b"CREATE TABLE t ()")
        relay = new_relay().start()
        waits = f"slot {relay.prefix} is being created: Postgres waits"
        relay.wait_for(lambda: waits in relay.get("/readyz")[1], "the reason on /readyz")
        connection.execute(b"COMMIT")
        relay.wait_streaming()
