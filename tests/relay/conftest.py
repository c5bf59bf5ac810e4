"""A clock that stands still until a test moves it."""

import pytest

from tests.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("backoff", "exactly_once", "observer", "positions", "renames", "server_poll"):
        monkeypatch.setattr(f"pgrelay.relay.{module}.time", clock)
    return clock
