"""How long each try of a question to Kafka may take.

A try is short because its thread can't be stopped: nothing else is noticed during it, and a process that ends
waits for it. An answer that comes after its try is dropped, so each try is longer than the last.
"""

from collections.abc import Iterator
from typing import Final

_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 4.0


def tries() -> Iterator[float]:
    """Time-outs in seconds, without end."""
    try_s = _SHORTEST_S
    while True:
        yield try_s
        try_s = min(try_s * 2, _LONGEST_S)
