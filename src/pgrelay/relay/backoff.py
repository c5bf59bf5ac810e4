"""How long to wait before the next try (jittered, growing, reset on success); which reasons were logged."""

import random
import re
from typing import Final

_FIRST_S: Final = 0.2
_MOST_S: Final = 5.0

# LSNs, process ids, seconds: the same trouble may recur with others.
_FIGURES: Final = re.compile(r"\b[\dA-F]+/[\dA-F]+\b|\d+")


class Backoff:
    """Pauses in seconds, each drawn between half and all of a bound that doubles."""

    def __init__(self) -> None:
        self._bound_s = _FIRST_S
        self._told: set[str] = set()

    def reset(self) -> None:
        self._bound_s = _FIRST_S
        self._told.clear()

    def is_news(self, reason: str) -> bool:
        """Whether this is the first of its kind since `reset`; figures in the text make no difference."""
        kind = _FIGURES.sub("", reason)
        known = kind in self._told
        self._told.add(kind)
        return not known

    def next_s(self, most_s: float = _MOST_S) -> float:
        """The next pause. `most_s`: what the bound may grow to."""
        bound_s = min(self._bound_s, most_s)
        self._bound_s = bound_s * 2
        return random.uniform(bound_s / 2, bound_s)
