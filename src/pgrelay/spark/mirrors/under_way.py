"""Which topics' records a batch is at, and since when, for those who tell how far mirrors are behind.

Spark tells of a batch when it has ended. Batches and listeners are called back in one process, Python's own.
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
    """For as long as the block, a batch of the query of that checkpoint takes in records of these topics."""
    places = [(checkpoint, topic) for topic in topics]
    _since.update(dict.fromkeys(places, clock()))
    try:
        yield
    finally:
        for place in places:
            _since.pop(place, None)


def under_way_since(topic: str) -> float | None:
    """When the oldest batch began that is at a topic's records; None where there is none."""
    return min((since for (_, each), since in list(_since.items()) if each == topic), default=None)
