"""Closes Kafka's clients so that none of their memory, threads or sockets stays behind."""

import contextlib
import traceback
from typing import Any, Final

from confluent_kafka import KafkaException

from pgrelay.kafka.reports import take_reports

_PURGE_S: Final = 5.0


def clear_frames(error: BaseException | None) -> None:
    """Clear the local variables in the tracebacks of an error and of all errors that led to it.

    After a failed call of a client, they hold its bound methods for as long as anybody keeps the error.
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
    """Take in the last reports of the first client, a purged producer, and drop the references to them all.

    Blocks until their threads have ended; one may be resolving a broker's name.
    """
    # A report that is never taken in is never freed, nor is what it refers to.
    with contextlib.suppress(KafkaException):
        take_reports(clients[0].flush, _PURGE_S)
    clients.clear()
