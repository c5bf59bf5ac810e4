"""What queries share with the listener that reports on them: checkpoints, running batches, the held back.

Spark reports a batch only once it has ended. It calls batches and listeners in the same Python process, so
they share this module's state: a user creates query and listener separately, and the session that both have
is in Java, for which metrics must not wait while a batch hangs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from pgrelay.spark.mirrors.checkpoint import Checkpoint

_MAX_REMEMBERED: Final = 1000  # queries; else a process that starts new ones for ever would grow

# By the query's id.
checkpoints: dict[str, Checkpoint] = {}
# By the id of a query of whole transactions: the commit time of the oldest one that it holds back, if any, in
# seconds since 1970.
held_since: dict[str, float | None] = {}
# By checkpoint and topic, in seconds since 1970.
_batch_starts: dict[tuple[str, str], float] = {}


def remember_checkpoint(query: str, checkpoint: Checkpoint) -> None:
    """Keep a query's checkpoint, and forget the queries that began longest ago."""
    checkpoints.pop(query, None)
    checkpoints[query] = checkpoint
    for oldest in list(checkpoints)[:-_MAX_REMEMBERED]:
        checkpoints.pop(oldest, None)
        held_since.pop(oldest, None)


@contextmanager
def track_batch(
    checkpoint: str, topics: Iterable[str], clock: Callable[[], float] = time.time
) -> Iterator[None]:
    """The block is a batch of that checkpoint's query, and takes in records of these topics."""
    keys = [(checkpoint, topic) for topic in topics]
    _batch_starts.update(dict.fromkeys(keys, clock()))
    try:
        yield
    finally:
        for key in keys:
            _batch_starts.pop(key, None)


def batch_started_at(topic: str) -> float | None:
    """When the oldest running batch with records of a topic began; None if there is none."""
    return min((since for (_, each), since in list(_batch_starts.items()) if each == topic), default=None)
