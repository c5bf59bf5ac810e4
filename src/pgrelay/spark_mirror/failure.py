"""Why a streaming query did not start, or went with Java: our own errors, of what Spark makes of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.spark.lake.failures import told_of

_log = structlog.get_logger(__name__)


@contextmanager
def told_at_start(of: str) -> Iterator[None]:
    """Raises one line for what Spark throws in the block: SetupError where it takes no such option."""
    try:
        with told_of(of):
            yield
    except PgrelayError as error:
        if isinstance(error.__cause__, IllegalArgumentException):
            raise SetupError(str(error)) from error
        raise
    except PySparkException as error:  # of Python's side: no Java came up
        raise PgrelayError(f"{of}: {str(error).strip().partition(chr(10))[0]}") from error


@contextmanager
def told_of_java(stop: threading.Event) -> Iterator[None]:
    """Raises one line where Spark's Java process goes in the block; none where we are to `stop` anyway."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if isinstance(error, Py4JJavaError):
            raise  # it is there
        if stop.is_set():
            _log.warning(
                "Spark's Java process was stopped, too: a batch under way is cut off, and comes again"
            )
            return
        raise PgrelayError(
            "Spark's Java process has gone: where it was killed for want of memory, let it have more, or "
            "take less (maxOffsetsPerTrigger in kafka.options, spark.driver.memory in spark.options)"
        ) from error
