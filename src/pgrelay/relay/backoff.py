"""How long to wait before the next try (jittered, growing, reset on success); when to log why."""

import random
import re
import time
from typing import Final

_FIRST_S: Final = 0.2
_MOST_S: Final = 5.0

# A log is rotated, or looked at from some time on: an outage that lasts must show there.
_AGAIN_S: Final = 600.0

# LSNs, process ids, seconds: the same trouble may recur with others.
_FIGURES: Final = re.compile(r"\b[\dA-F]+/[\dA-F]+\b|\d+")


class Backoff:
    """Pauses in seconds, each drawn between half and all of a bound that doubles."""

    def __init__(self) -> None:
        self._bound_s = _FIRST_S
        self._told_at: dict[str, float] = {}
        self._began: float | None = None

    def reset(self) -> None:
        self._bound_s = _FIRST_S
        self._told_at.clear()
        self._began = None

    @property
    def lasts_s(self) -> float:
        """Seconds since the first reason since `reset`."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def is_news(self, reason: str) -> bool:
        """Whether none of its kind came since `reset`, or in the last ten minutes.

        Figures in the text make no difference.
        """
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        kind = _FIGURES.sub("", reason)
        told_at = self._told_at.get(kind)
        if told_at is not None and now - told_at < _AGAIN_S:
            return False
        self._told_at[kind] = now
        return True

    def next_s(self, most_s: float = _MOST_S) -> float:
        """The next pause. `most_s`: what the bound may grow to."""
        bound_s = min(self._bound_s, most_s)
        self._bound_s = bound_s * 2
        return random.uniform(bound_s / 2, bound_s)
