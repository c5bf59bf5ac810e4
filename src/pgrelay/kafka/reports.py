"""Makes the producer's calls that take in delivery reports and events: `poll`, `flush`, transactional ones.

Make no call of the client while an error is handled. If it raises a KafkaException, that error becomes the
context of the KafkaError inside, which never frees it, nor the frames that it has passed: the producer would
stay for as long as the process. (Confluent's KafkaError is made like an exception, but is none: to Python, it
has no `__context__`.) A call in another thread is safe.
"""

from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

T = TypeVar("T")


def take_reports(call: Callable[[float], T], timeout_s: float) -> T:
    """Make such a call. Raises KafkaException, always, for an error that is fatal to the producer.

    The client makes it Python's current exception, and may then pass on more reports in the same call. Python
    finds that inconsistent, and raises a SystemError with the fatal error as its cause; or with none, if what
    took in a report has cleared the exception.
    """
    try:
        return call(timeout_s)
    except (KafkaException, SystemError) as raised:
        fatal = raised.__cause__ if isinstance(raised, SystemError) else raised
        if fatal is None:
            # Reports on what was refused may come after it, as after this one.
            code = KafkaError._GAPLESS_GUARANTEE
            fatal = KafkaException(KafkaError(code, "the producer has failed for good"))
        if not isinstance(fatal, KafkaException):
            raise
        # Before Python 3.12 the client never frees an error that one of its callbacks has raised. Our frame,
        # which has the call, would keep the producer with its threads and sockets for as long.
        raised.__traceback__ = raised.__cause__ = raised.__context__ = None
        raise KafkaException(*fatal.args) from None
