"""Which topics a running batch takes records from, and since when, so that metrics can show it as lag.

Spark reports a batch only once it has ended. It calls batches and listeners back in the same Python process,
so they share this module's state: a user makes query and listener apart, and the session that both have is
in Java, which metrics must not wait for while a batch hangs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

# By checkpoint and topic, in seconds since 1970.
_since: dict[tuple[str, str], float] = {}


@contextmanager
def under_way(
    checkpoint: str, topics: Iterable[str], clock: Callable[[], float] = time.time
) -> Iterator[None]:
    """During the block, a batch of that checkpoint's query takes in records of these topics."""
    places = [(checkpoint, topic) for topic in topics]
    _since.update(dict.fromkeys(places, clock()))
    try:
        yield
    finally:
        for place in places:
            _since.pop(place, None)


def under_way_since(topic: str) -> float | None:
    """When the oldest running batch with records of a topic began; None if there is none."""
    return min((since for (_, each), since in list(_since.items()) if each == topic), default=None)
