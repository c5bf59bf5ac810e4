"""The relay's health. Other threads read it, so each value is stored atomically or has a lock."""

import time
from collections.abc import Callable
from typing import Final

from pgrelay.status.troubles import Troubles

_STUCK_AFTER_S: Final = 10.0


class Health:
    """The relay's health: when its event loop last ran, whether the stream flows, what went wrong."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives monotonic seconds."""
        self.troubles = Troubles()
        self._clock = clock
        self._last_beat_s = clock()
        self._waiting_for: str | None = "starting"
        # Nothing is shown but what a start waits for.
        self._starting = True

    def beat(self) -> None:
        """Record that the event loop ran."""
        self._last_beat_s = self._clock()

    def set_streaming(self) -> None:
        """Record that the stream flows."""
        self._waiting_for, self._starting = None, False

    def set_starting(self, reason: str, *, override: bool = False) -> None:
        """Record what a start waits for. A trouble that is shown says more, and stays, unless `override`."""
        if self._starting or override:
            self._waiting_for, self._starting = reason, True

    def set_waiting(self, reason: str) -> None:
        """Record that the stream doesn't flow; `reason` is one line: `Postgres can't be reached: refused`."""
        self._waiting_for, self._starting = reason, False

    @property
    def ready(self) -> bool:
        return self._waiting_for is None

    @property
    def reason(self) -> str:
        """`streaming`, or why not."""
        return self.state[1]

    @property
    def state(self) -> tuple[bool, str]:
        """`ready` and `reason`, read at once: the event loop may change them in between."""
        waiting_for = self._waiting_for
        return waiting_for is None, waiting_for or "streaming"

    def stuck_for_s(self) -> float | None:
        """Seconds since the event loop last ran if that is too long ago, else None."""
        silent_s = self._clock() - self._last_beat_s
        return silent_s if silent_s >= _STUCK_AFTER_S else None
