"""Failures of Spark, Delta and Iceberg as our own errors: one line that says where and why."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.printable import printable

_WRITE: Final = "let this process write there, or name another folder"

# Delta's error conditions for what somebody has set on the table.
_APPEND_ONLY: Final = "[DELTA_CANNOT_MODIFY_APPEND_ONLY]"
_CONSTRAINT: Final = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]"

# Cures, by the text in Delta's and Hadoop's errors.
_CURES: Final = {
    _APPEND_ONLY: "set delta.appendOnly of the table to false",
    _CONSTRAINT: "rows stay as Postgres has them: drop the table's constraint",
    "[DELTA_CANNOT_CREATE_LOG_PATH]": _WRITE,
    "Mkdirs failed to create ": _WRITE,
}

_log = structlog.get_logger(__name__)


@contextmanager
def wrap_java_errors(where: str) -> Iterator[None]:
    """Raises PgrelayError for what Java throws in the block: `where`, and the root cause. Others pass.

    It is a SetupError if Delta refuses because of what somebody has set on the table: a retry would fail too.
    """
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        message = f"{where}: {root_cause(error)}"
        condition = next((each for each in _CURES if each in message), "")
        kind = SetupError if condition in (_APPEND_ONLY, _CONSTRAINT) else PgrelayError
        # Chained to Java's own text, by which Spark tells a stopped query from a failed one.
        raise kind(f"{message}; {_CURES[condition]}" if condition else message) from error


@contextmanager
def wrap_invalid_arguments(what: str) -> Iterator[None]:
    """Raises SetupError if Spark rejects an argument in the block: `what`, and why. Other errors pass."""
    try:
        yield
    except IllegalArgumentException as error:
        raise SetupError(f"{what}: {printable(' '.join(str(error).split()))}") from error


@contextmanager
def wrap_raised_error(text: str, refusal: Callable[[str], PgrelayError]) -> Iterator[None]:
    """Raises `refusal` for a plan whose `raise_error` fails it with `text`, followed by a commit LSN.

    `refusal` gets the LSN as Postgres writes it. Other errors pass.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = re.search(f"{re.escape(text)}([0-9]+)", str(error))
        if found is None:
            raise
        raise refusal(format_lsn(int(found[1]))) from error


def root_cause(error: Py4JJavaError | CapturedException) -> str:
    """The root cause that Java reports, in one line."""
    java: JavaObject | None = (
        error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    )
    if java is None:
        return _first_line(str(error))
    while (deeper := java.getCause()) is not None:
        java = deeper
    return _first_line(java.toString())


def one_line(error: Exception) -> str:
    """An error in one line: the root cause of what Java threw, the text of any other."""
    return (
        root_cause(error)
        if isinstance(error, (Py4JJavaError, CapturedException))
        else _first_line(str(error))
    )


def log_unreadable(what: str, error: Exception) -> None:
    """Log a harmless failure to read something, at level debug."""
    # Unless it is configured, structlog shows every level, as in a notebook.
    if structlog.is_configured():
        _log.debug(f"{what} can't be read", reason=one_line(error))


def _first_line(text: str) -> str:
    """The first line, safe for a terminal: Java's texts quote bytes of records."""
    first, _, rest = text.strip().partition("\n")
    # Some errors give the details on the next line.
    line = f"{first.rstrip()} {_first_line(rest)}" if first.rstrip().endswith(":") and rest else first
    return printable(line)
