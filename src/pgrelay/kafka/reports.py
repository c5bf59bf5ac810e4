"""Calls of the producer that take in delivery reports and events: `poll`, `flush`, and transactional ones."""

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

T = TypeVar("T")


def take_reports(call: Callable[[float], T], timeout_s: float) -> T:
    """Make such a call. Raises KafkaException, always, for an error that is fatal to the producer.

    The client makes it Python's current exception, and may then pass on more reports in the same call. Python
    finds that inconsistent, and raises a SystemError with the fatal error as its cause.
    """
    try:
        return call(timeout_s)
    except SystemError as inconsistent:
        fatal = inconsistent.__cause__
        if not isinstance(fatal, KafkaException):
            raise
        # Not itself: the client never frees it, so the frames that it passed, and what they hold, would stay.
        raise KafkaException(*fatal.args) from None
