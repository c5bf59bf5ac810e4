"""How Kafka's clients are let go of, so that no memory, thread or socket of them lives on."""

import contextlib
from typing import Any, Final

from confluent_kafka import KafkaException

_PURGE_S: Final = 5.0


def end(clients: list[Any]) -> None:
    """Take in what a purged producer, the first, still reports, and let go of all clients.

    Blocks until their threads have ended, which may be looking up a broker's name.
    """
    # A report that nobody takes in is never freed, nor what it refers to.
    with contextlib.suppress(KafkaException):
        clients[0].flush(_PURGE_S)
    clients.clear()
