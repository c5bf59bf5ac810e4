"""Time that stands still until a test moves it."""

import pytest


class Clock:
    """What the relay's parts see as the module `time`; in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("commits", "positions"):
        monkeypatch.setattr(f"pgrelay.relay.{module}.time", clock)
    return clock
