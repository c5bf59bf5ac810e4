"""Our own errors for a query that did not start, or that lost its Java process."""

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

_ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
_NO_JAVA: Final = (
    "Spark's Java process did not start: the lines that it printed say why; check spark.master, and "
    "spark.driver.memory in spark.options"
)

# The text of errors after Spark has given up, say on its master; only its own log says why.
_STOPPED: Final = "stopped SparkContext"
_ENDED: Final = "Spark has ended by itself: its own line above says why; at the start, check spark.master"


@contextmanager
def wrap_start_errors(of: str) -> Iterator[None]:
    """Raises PgrelayError for what Spark throws in the block, and SetupError if it rejects an option."""
    try:
        with wrap_java_errors(of):
            yield
    except PgrelayError as error:
        if isinstance(error.__cause__, IllegalArgumentException):
            raise SetupError(str(error).replace(f"{_ILLEGAL_ARGUMENT}: ", "")) from error
        if _STOPPED in str(error):
            raise PgrelayError(_ENDED) from error
        raise
    except PySparkException as error:  # from PySpark itself, not from Java
        no_java = error.getCondition() == "JAVA_GATEWAY_EXITED"
        raise PgrelayError(_NO_JAVA if no_java else f"{of}: {one_line(error)}") from error


@contextmanager
def wrap_java_exit(stop: threading.Event) -> Iterator[None]:
    """Raises PgrelayError if Spark's Java process ends in the block; only warns if we are to `stop`."""
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if isinstance(error, Py4JJavaError):
            raise  # the Java process is alive
        if stop.is_set():
            _log.warning(
                "Spark's Java process was stopped too: the current batch is cut off, and will be repeated"
            )
            return
        raise PgrelayError(
            "Spark's Java process has ended: if it was killed for lack of memory, give it more "
            "(spark.driver.memory in spark.options), or take less (maxOffsetsPerTrigger in kafka.options)"
        ) from error
