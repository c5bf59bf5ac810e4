"""Logical messages outside transactions end where the next record begins, which may be a commit."""

import psycopg
import pytest

from pgrelay.lsn import parse_lsn
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.faults.once import exactly_once, ids
from tests.integration.relays import Relay

ROUNDS = 3  # since another record may come between the two
EMIT = "SELECT pg_logical_emit_message(false, 'p', 'x', true)::text"  # and flush it


@pytest.fixture(params=["at_least_once", "exactly_once"])
def relay(request: pytest.FixtureRequest, database: Database, new_relay: NewRelay) -> Relay:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, body text)")
    sections = {"source": {"two_phase": True}, "sink": {"delivery": request.param}}
    return exactly_once(new_relay, **sections).start().wait_streaming()


def wait_confirmed(relay: Relay, lsn: int) -> None:
    relay.wait_for(lambda: relay.confirmed_lsn() >= lsn, "the message to be confirmed")


@pytest.mark.parametrize("prepared", [False, True], ids=["commit", "prepare"])
def test_a_message_does_not_confirm_the_transaction_right_behind_it(
    database: Database, relay: Relay, prepared: bool
) -> None:
    for number in range(ROUNDS):
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (%s)", [number])
            (lsn,) = connection.execute(EMIT).fetchone() or ("",)
            wait_confirmed(relay, parse_lsn(lsn))
            relay.kill()
            if prepared:
                connection.execute(f"PREPARE TRANSACTION '{database.name}'")
                connection.execute(f"COMMIT PREPARED '{database.name}'")
            else:
                connection.execute("COMMIT")
        relay.start()
        relay.caught_up()
    assert ids(relay) == list(range(ROUNDS))
    assert len(relay.read(f"{relay.prefix}.message")) == ROUNDS
