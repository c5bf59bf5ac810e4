"""A clock that stands still until a test moves it."""

import pytest

from tests.clock import Clock

_TIMED = ("backoff", "confirmations", "exactly_once", "observer", "positions", "renames", "server_poll")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in _TIMED:
        monkeypatch.setattr(f"pgrelay.relay.{module}.time", clock)
    return clock
