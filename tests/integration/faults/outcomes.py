"""How a relay reports its outcome: exit codes and log events."""

import contextlib

import psycopg

from tests.integration.faults.slots import wait_free
from tests.integration.relays import Relay

# Exit codes.
WRONG = 2  # the setup is wrong
LOST = 3  # the stream can't go on without losing data
UNDELIVERABLE = 4  # a record can't be delivered

# The event for trouble that passes by itself; its `reason` says what it is.
WAITING = "waiting, will go on by itself"


def last_words(relay: Relay, exit_code: int) -> str:
    """Wait until the relay ends with this code and its slot is free; return the line that says why."""
    assert relay.wait_exit() == exit_code, relay.log_text
    # The relay does not wait for the server, which may still have to process its last message.
    with contextlib.suppress(psycopg.OperationalError):  # the server is down
        wait_free(relay.database, relay.prefix)
    [line] = [event["event"] for event in relay.log if event["level"] == "error"]
    assert "\n" not in line
    assert "Traceback" not in relay.log_text
    return str(line)
