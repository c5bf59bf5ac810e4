"""Subtransactions that were streamed and rolled back, without a word from the server.

It forgets that it streamed one if the memory limit was reached in the middle of one of its rows, after more
changes than it reads back at a time.
"""

import pytest

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.servers import on_full_versions

# The memory limit, and a statement that reaches it within a row. A row takes several changes.
in_the_middle_of_a_row = pytest.mark.parametrize(
    ("limit", "statement"),
    [
        (
            "1MB",
            "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 7000) g "
            "ON CONFLICT (id) DO UPDATE SET note = excluded.note",
        ),
        ("10MB", "INSERT INTO t SELECT g, repeat('x', 8000) FROM generate_series(1, 1600) g"),
    ],
    ids=["upsert", "large values"],
)
_LEFT_OUT = "the server sent changes that were rolled back; left out"


def set_up(database: Database, limit: str) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, note text)")
    database.execute("ALTER TABLE t ALTER note SET STORAGE EXTERNAL")
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '{limit}'")


def roll_back_what_was_streamed(database: Database, relay: Relay, statement: str, end: str) -> None:
    """Insert 0, then the statement's rows in a savepoint that is rolled back, then -2; and -1 meanwhile."""
    with database.connect() as connection:
        connection.execute("BEGIN; INSERT INTO t VALUES (0); SAVEPOINT s")
        connection.execute(statement)
        # Its commit puts all before it in the WAL, and once it is delivered all that has been streamed.
        database.execute("INSERT INTO t VALUES (-1)")
        relay.caught_up()
        connection.execute("ROLLBACK TO s; INSERT INTO t VALUES (-2)")
        connection.execute(end)


def ids(relay: Relay) -> list[int]:
    return [record.json["after"]["id"] for record in relay.records("t")]


@on_full_versions
@in_the_middle_of_a_row
def test_what_was_rolled_back_is_left_out_of_a_streamed_transaction(
    database: Database, new_relay: NewRelay, limit: str, statement: str
) -> None:
    set_up(database, limit)
    relay = new_relay().start().wait_streaming()
    roll_back_what_was_streamed(database, relay, statement, "COMMIT")
    relay.caught_up()
    assert ids(relay) == [-1, 0, -2]
    assert relay.wait_event(_LEFT_OUT)["subtransactions"] == 1


def test_functions_of_users_do_not_answer_for_the_servers_own(
    database: Database, new_relay: NewRelay
) -> None:
    """One that fits a call better would be taken, with the relay's rights, if its schema were searched."""
    set_up(database, "10MB")
    for arguments in ("unnest(bigint[])", "unnest(text[])"):
        kind = arguments.partition("(")[2].removesuffix("[])")
        database.execute(
            f"CREATE FUNCTION public.{arguments} RETURNS SETOF {kind} LANGUAGE plpgsql AS 'BEGIN RETURN; END'"
        )
    database.execute(
        "CREATE FUNCTION public.keep(oid[], oid) RETURNS oid[] LANGUAGE plpgsql "
        "AS 'BEGIN RAISE ''hijacked''; END'"
    )
    database.execute("CREATE AGGREGATE public.array_agg(oid) (SFUNC = keep, STYPE = oid[])")
    relay = new_relay().start().wait_streaming()
    statement = "INSERT INTO t SELECT g, repeat('x', 8000) FROM generate_series(1, 1600) g"
    roll_back_what_was_streamed(database, relay, statement, "COMMIT")
    relay.caught_up()
    assert ids(relay) == [-1, 0, -2]
    assert relay.command("check").returncode == 0


@pytest.mark.parametrize("version", ["16", "18"], indirect=True)
def test_what_was_rolled_back_is_left_out_of_a_prepared_transaction(
    database: Database, new_relay: NewRelay
) -> None:
    """Also after a restart, by what is kept on disk."""
    set_up(database, "1MB")
    relay = new_relay(source={"two_phase": True}).start().wait_streaming()
    statement = "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 7000) g ON CONFLICT (id) DO NOTHING"
    roll_back_what_was_streamed(database, relay, statement, "PREPARE TRANSACTION 'g'")
    relay.caught_up()
    assert relay.wait_event(_LEFT_OUT)["subtransactions"] == 1
    relay.kill()
    relay.start().wait_streaming()
    database.execute("COMMIT PREPARED 'g'")
    relay.caught_up()
    assert ids(relay) == [-1, 0, -2]
