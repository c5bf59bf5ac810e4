"""How long to wait before the next try (jittered, growing, reset on success), and when to log the reason."""

import random
import re
import time
from typing import Final

_FIRST_S: Final = 0.2
_MAX_S: Final = 5.0

# Logs are rotated and read from some point on, so an outage that lasts is logged again.
_LOG_AGAIN_S: Final = 600.0

# LSNs, process ids, seconds: they differ each time the same trouble recurs.
_NUMBERS: Final = re.compile(r"\b[\dA-F]+/[\dA-F]+\b|\d+")


class Backoff:
    """Pauses in seconds, each drawn between half and all of a bound that doubles."""

    def __init__(self) -> None:
        self._bound_s = _FIRST_S
        self._logged_at: dict[str, float] = {}
        self._outage_began: float | None = None

    def reset(self) -> None:
        self._bound_s = _FIRST_S
        self._logged_at.clear()
        self._outage_began = None

    @property
    def outage_s(self) -> float:
        """Seconds since the first failure after `reset`."""
        return 0.0 if self._outage_began is None else time.monotonic() - self._outage_began

    def should_log(self, reason: str) -> bool:
        """Whether none like it came since `reset`, or in the last ten minutes; numbers in it don't count.

        Call once for each failure.
        """
        now = time.monotonic()
        self._outage_began = now if self._outage_began is None else self._outage_began
        kind = _NUMBERS.sub("", reason)
        logged_at = self._logged_at.get(kind)
        if logged_at is not None and now - logged_at < _LOG_AGAIN_S:
            return False
        self._logged_at[kind] = now
        return True

    def next_s(self, max_s: float = _MAX_S) -> float:
        """The next pause. `max_s`: what the bound may grow to."""
        bound_s = min(self._bound_s, max_s)
        self._bound_s = bound_s * 2
        return random.uniform(bound_s / 2, bound_s)
