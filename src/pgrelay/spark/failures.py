"""Failures of Spark, Delta and Iceberg, in one line that says where."""

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

# By which Delta obeys what somebody has set for the table.
_APPEND_ONLY: Final = "[DELTA_CANNOT_MODIFY_APPEND_ONLY]"
_CONSTRAINT: Final = "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]"

# What Delta and Hadoop say, and what ends that.
_CURES: Final = {
    _APPEND_ONLY: "set delta.appendOnly of the table to false",
    _CONSTRAINT: "rows stay as Postgres has them: drop the table's constraint",
    "[DELTA_CANNOT_CREATE_LOG_PATH]": _WRITE,
    "Mkdirs failed to create ": _WRITE,
}

_log = structlog.get_logger(__name__)


@contextmanager
def told_of(where: str) -> Iterator[None]:
    """Raises PgrelayError for what Java throws in the block: `where`, and the root cause. Ours pass.

    It is a SetupError if Delta obeys what somebody has set for the table, and would at every repetition.
    """
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        told = f"{where}: {cause(error)}"
        condition = next((each for each in _CURES if each in told), "")
        kind = SetupError if condition in (_APPEND_ONLY, _CONSTRAINT) else PgrelayError
        # Chained to Java's own text, by which Spark tells a stopped query from a failed one.
        raise kind(f"{told}; {_CURES[condition]}" if condition else told) from error


@contextmanager
def accepted(what: str) -> Iterator[None]:
    """Raises SetupError if Spark does not accept what the block gives it: `what`, and why. Others pass."""
    try:
        yield
    except IllegalArgumentException as error:
        raise SetupError(f"{what}: {printable(' '.join(str(error).split()))}") from error


@contextmanager
def refused_by(told: str, refusal: Callable[[str], PgrelayError]) -> Iterator[None]:
    """Raises `refusal` for a plan that fails with our text `told`, followed by a commit LSN.

    `refusal` gets the LSN as Postgres writes it. Other errors pass.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = re.search(f"{re.escape(told)}([0-9]+)", str(error))
        if found is None:
            raise
        raise refusal(format_lsn(int(found[1]))) from error


def cause(error: Py4JJavaError | CapturedException) -> str:
    """The root cause that Java reports, in one line."""
    java: JavaObject | None = (
        error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    )
    if java is None:
        return _first_line(str(error))
    while (deeper := java.getCause()) is not None:
        java = deeper
    return _first_line(java.toString())


def reason(error: Exception) -> str:
    """In one line: the root cause of what Java threw, the text of anything else."""
    return cause(error) if isinstance(error, (Py4JJavaError, CapturedException)) else _first_line(str(error))


def log_unread(what: str, error: Exception) -> None:
    """Log a failure that is of no consequence, for those who read the lines of level debug."""
    # Where nobody has configured structlog, as in a notebook, it shows every level.
    if structlog.is_configured():
        _log.debug(f"{what} can't be read", reason=reason(error))


def _first_line(text: str) -> str:
    """The first line, as a terminal may show it: Java's texts quote bytes of records."""
    first, _, rest = text.strip().partition("\n")
    # Some errors give the details on the next line.
    told = f"{first.rstrip()} {_first_line(rest)}" if first.rstrip().endswith(":") and rest else first
    return printable(told)
