"""Commits that wait for a synchronous standby: they are in the WAL and sent to us before queries see them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pgrelay.embedded.postgres import Postgres
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.outcomes import WAITING
from tests.integration.faults.own_servers import own_postgres
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until

# Types and keys created by the transaction with the first row, which the stream does not describe.
_NEW = """
BEGIN;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE t (id int PRIMARY KEY, moods mood[]);
ALTER TABLE t REPLICA IDENTITY FULL;
INSERT INTO t VALUES (1, '{sad,ok}');
COMMIT
"""
_WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@contextmanager
def committing(database: Database, statements: str) -> Iterator[threading.Thread]:
    """Run them in a thread, with a commit that waits for standbys until the block ends."""

    def write() -> None:
        with database.connect() as connection:
            connection.execute("SET synchronous_commit = on")
            connection.execute(statements.encode())

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield thread
    finally:
        # A commit interrupted like this has happened anyway.
        database.execute(f"SELECT pg_cancel_backend(pid) FROM ({_WAITS}) waits")
        thread.join()


def records_are_right(relay: Relay) -> None:
    [record] = relay.records("t", 1)
    assert record.json_key == {"id": 1}
    assert record.json["after"] == {"id": 1, "moods": ["sad", "ok"]}


@own_postgres(synchronous_standby_names="nobody", synchronous_commit="local")
def test_types_and_keys_are_queried_only_when_they_are_visible(
    server: Postgres, database: Database, new_relay: NewRelay
) -> None:
    relay = new_relay().start().wait_streaming()
    with committing(database, _NEW), database.connect() as other:
        wait_until(lambda: other.execute(_WAITS).fetchall(), "the commit to wait")
        assert "it waits for a synchronous standby" in relay.wait_event(WAITING)["reason"]
        assert relay.get("/readyz")[0] == 503
    relay.caught_up()
    records_are_right(relay)


@own_postgres(synchronous_standby_names="*", synchronous_commit="local")
def test_a_commit_that_waits_for_the_relay_itself_is_relayed(
    server: Postgres, database: Database, new_relay: NewRelay
) -> None:
    """A relay that the server counts as a standby must not wait for the commit itself."""
    database.execute(_NEW.replace("INSERT", "-- "))
    relay = new_relay().start().wait_streaming()
    with committing(database, "INSERT INTO t VALUES (1, '{sad,ok}')") as writer:
        wait_until(lambda: not writer.is_alive(), "the commit")
    relay.caught_up()
    records_are_right(relay)
