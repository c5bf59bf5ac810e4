"""Who uses a slot, and where it continues."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Walsender:
    pid: int
    backend_start: datetime


def walsender(database: Database, slot: str) -> Walsender | None:
    """The server's process at the other end of a relay's stream."""
    with database.connect() as connection:
        row = connection.execute(
            "SELECT pid, backend_start FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid"
            " WHERE slot_name = %s",
            [slot],
        ).fetchone()
    return None if row is None else Walsender(*row)


def wait_free(database: Database, slot: str) -> None:
    """Wait until nobody uses the slot: then the server has processed everything from its last user."""
    wait_until(lambda: walsender(database, slot) is None, f"slot {slot} to be free")


def exists(database: Database, slot: str) -> bool:
    """Whether the slot exists, even if its creation has not finished."""
    with database.connect() as connection:
        found = connection.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s", [slot])
        return found.fetchone() is not None


@contextmanager
def cut_off(relay: Relay) -> Iterator[None]:
    """The relay has lost its connection, but only notices after the block."""
    database, slot = relay.database, relay.prefix
    owner = walsender(database, slot)
    assert owner is not None
    relay.pause()
    with database.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [owner.pid])
    wait_free(database, slot)
    yield
    relay.resume()


def cut_stream(relay: Relay) -> None:
    """Make the server end the relay's connection; return once the slot is free."""
    owner = walsender(relay.database, relay.prefix)
    assert owner is not None
    with relay.database.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [owner.pid])
    wait_free(relay.database, relay.prefix)
