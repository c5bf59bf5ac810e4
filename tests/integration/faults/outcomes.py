"""How a relay tells what has become of it."""

import contextlib

import psycopg

from tests.integration.faults.slots import wait_free
from tests.integration.relays import Relay

# Exit codes.
WRONG = 2  # the set-up is wrong
LOST = 3  # the stream can't go on without losing data
UNDELIVERABLE = 4  # a record can't be delivered

# The event that tells of trouble which passes; its `reason` says what it is.
WAITING = "waiting, will go on by itself"


def last_words(relay: Relay, exit_code: int) -> str:
    """Waits for the relay to end with this code, its slot left; returns the one line that says why."""
    assert relay.wait_exit() == exit_code, relay.log_text
    # It does not take its leave of the server, which has yet to take in what it was told last.
    with contextlib.suppress(psycopg.OperationalError):  # of a server that is down
        wait_free(relay.database, relay.prefix)
    [line] = [event["event"] for event in relay.log if event["level"] == "error"]
    assert "\n" not in line
    assert "Traceback" not in relay.log_text
    return str(line)
