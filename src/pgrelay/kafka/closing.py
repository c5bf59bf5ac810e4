"""How Kafka's clients are let go of, so that no memory, thread or socket of them lives on."""

import contextlib
import traceback
from typing import Any, Final

from confluent_kafka import KafkaException

_PURGE_S: Final = 5.0


def clear_frames(error: BaseException | None) -> None:
    """Let go of what an error refers to by its frames, and by those of all that led to it.

    Where a call of a client failed they hold its bound methods, for as long as anybody has the error.
    """
    errors, seen = [error], set[int]()
    while errors:
        each = errors.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        errors += each.__cause__, each.__context__


def close_clients(clients: list[Any]) -> None:
    """Take in what a purged producer, the first, still reports, and let go of all clients.

    Blocks until their threads have ended, which may be looking up a broker's name.
    """
    # A report that nobody takes in is never freed, nor what it refers to.
    with contextlib.suppress(KafkaException):
        clients[0].flush(_PURGE_S)
    clients.clear()
