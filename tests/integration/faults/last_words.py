"""How a relay says why it ended."""

from tests.integration.relays import Relay

WRONG = 2  # exit codes: the set-up is wrong,
LOST = 3  # the stream can't go on without losing data,
UNDELIVERABLE = 4  # or a record can't be delivered


def last_words(relay: Relay, exit_code: int) -> str:
    """Waits for the relay to end with this code; returns the one line, and all that it said of the reason."""
    assert relay.wait_exit() == exit_code, relay.log_text
    [line] = [event["event"] for event in relay.log if event["level"] == "error"]
    assert relay.log[-1]["event"] == line
    assert "\n" not in line
    return str(line)
