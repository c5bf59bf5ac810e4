"""Why a streaming query did not start, or lost its Java process: our own errors in place of Spark's."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.spark.failures import one_line, wrap_java_errors

_log = structlog.get_logger(__name__)

_REFUSED: Final = "java.lang.IllegalArgumentException"
_NO_JAVA: Final = (
    "Spark's Java process did not start: the lines that it printed say why; check spark.master, and "
    "spark.driver.memory in spark.options"
)

# What calls say after Spark has given up, such as a master, which it tells only in its own log.
_STOPPED: Final = "stopped SparkContext"
_GIVEN_UP: Final = "Spark has ended by itself: its own line above says why; at the start, check spark.master"


@contextmanager
def told_at_start(of: str) -> Iterator[None]:
    """Raises one line for what Spark throws in the block: SetupError if it does not accept an option."""
    try:
        with wrap_java_errors(of):
            yield
    except PgrelayError as error:
        if isinstance(error.__cause__, IllegalArgumentException):
            raise SetupError(str(error).replace(f"{_REFUSED}: ", "")) from error
        if _STOPPED in str(error):
            raise PgrelayError(_GIVEN_UP) from error
        raise
    except PySparkException as error:  # from Python's side
        told = _NO_JAVA if error.getCondition() == "JAVA_GATEWAY_EXITED" else f"{of}: {one_line(error)}"
        raise PgrelayError(told) from error


@contextmanager
def told_of_java(stop: threading.Event) -> Iterator[None]:
    """Raises one line if Spark's Java process ends in the block; only warns if we are to `stop` anyway."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if isinstance(error, Py4JJavaError):
            raise  # the Java process is there
        if stop.is_set():
            _log.warning(
                "Spark's Java process was stopped too: the current batch is cut off, and will be repeated"
            )
            return
        raise PgrelayError(
            "Spark's Java process has ended: if it was killed for lack of memory, give it more "
            "(spark.driver.memory in spark.options), or take less (maxOffsetsPerTrigger in kafka.options)"
        ) from error
