"""Timeouts for repeated requests to Kafka.

The first are short because a request's thread can't be stopped: nothing else is noticed meanwhile, and a
process that ends waits for it. A late answer is dropped, so each timeout is longer than the one before.
"""

from collections.abc import Iterator
from typing import Final

_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 4.0


def growing_timeouts_s() -> Iterator[float]:
    """Endless; each twice the one before, up to a limit."""
    timeout_s = _SHORTEST_S
    while True:
        yield timeout_s
        timeout_s = min(timeout_s * 2, _LONGEST_S)
