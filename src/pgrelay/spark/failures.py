"""Failures of Spark, Delta and Iceberg, in one line that says where."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.printable import printable

# Delta's error conditions, and what ends them.
_SET_BY_SOMEBODY: Final = {
    "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]": "rows stay as Postgres has them: drop the table's constraint",
    "[DELTA_CANNOT_MODIFY_APPEND_ONLY]": "set delta.appendOnly of the table to false",
}

# What Hadoop and Delta say of a folder that can't be created, without a reason, and what ends that.
_WRITE: Final = "let this process write there, or name another folder"
_NOT_CREATED: Final = {"Mkdirs failed to create ": _WRITE, "[DELTA_CANNOT_CREATE_LOG_PATH]": _WRITE}


@contextmanager
def told_of(where: str) -> Iterator[None]:
    """Raises PgrelayError for what Java throws in the block: `where`, and the root cause. Ours pass.

    It is a SetupError if Delta obeys what somebody has set for the table, and would at every repetition.
    """
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        told = f"{where}: {cause(error)}"
        kind = SetupError if any(condition in told for condition in _SET_BY_SOMEBODY) else PgrelayError
        cures = (_SET_BY_SOMEBODY | _NOT_CREATED).items()
        cure = next((f"; {cure}" for condition, cure in cures if condition in told), "")
        # Chained to Java's own text, by which Spark tells a stopped query from a failed one.
        raise kind(f"{told}{cure}") from error


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


def _first_line(text: str) -> str:
    """The first line, as a terminal may show it: Java's texts quote bytes of records."""
    first, _, rest = text.strip().partition("\n")
    # Some errors give the details on the next line.
    told = f"{first.rstrip()} {_first_line(rest)}" if first.rstrip().endswith(":") and rest else first
    return printable(told)
