"""A clock that stands still until a test moves it, and an observer."""

import pytest

from pgrelay.relay.observer import Observer
from pgrelay.status.health import Health
from tests.clock import Clock
from tests.relay.observed import UnpublishedObserver

_TIMED = (
    "backoff",
    "confirmations",
    "exactly_once",
    "headway",
    "observer",
    "positions",
    "renames",
    "password_rotation",
    "server_poll",
    "silence",
    "stalls",
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in _TIMED:
        monkeypatch.setattr(f"pgrelay.relay.{module}.time", clock)
    return clock


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def observer(health: Health) -> Observer:
    return UnpublishedObserver(health)
