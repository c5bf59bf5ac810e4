"""What queries tell the listener that reports them: checkpoints, running batches, and what is held back.

Spark reports a batch only once it has ended. It calls batches and listeners back in the same Python process,
so they share this module's state: a user makes query and listener apart, and the session that both have is
in Java, which metrics must not wait for while a batch hangs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from pgrelay.spark.mirrors.checkpoint import Checkpoint

_REMEMBERED: Final = 1000  # queries; a process that starts new ones for ever would grow

# By the query's id.
checkpoints: dict[str, Checkpoint] = {}
# By the id of a query of whole transactions: the commit time of the oldest one that it holds back, if any, in
# seconds since 1970.
held_since: dict[str, float | None] = {}
# By checkpoint and topic, in seconds since 1970.
_under_way: dict[tuple[str, str], float] = {}


def remember(query: str, checkpoint: Checkpoint) -> None:
    """Keep a query's checkpoint, and forget the queries that began longest ago."""
    checkpoints.pop(query, None)
    checkpoints[query] = checkpoint
    for oldest in list(checkpoints)[:-_REMEMBERED]:
        checkpoints.pop(oldest, None)
        held_since.pop(oldest, None)


@contextmanager
def under_way(
    checkpoint: str, topics: Iterable[str], clock: Callable[[], float] = time.time
) -> Iterator[None]:
    """During the block, a batch of that checkpoint's query takes in records of these topics."""
    places = [(checkpoint, topic) for topic in topics]
    _under_way.update(dict.fromkeys(places, clock()))
    try:
        yield
    finally:
        for place in places:
            _under_way.pop(place, None)


def under_way_since(topic: str) -> float | None:
    """When the oldest running batch with records of a topic began; None if there is none."""
    return min((since for (_, each), since in list(_under_way.items()) if each == topic), default=None)
