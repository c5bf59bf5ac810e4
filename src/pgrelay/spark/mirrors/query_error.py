"""Why a streaming query ended: our own error, recovered from Spark's."""

import re
import sys
from typing import Final, overload

from pyspark.errors import StreamingQueryException

from pgrelay.errors import PgrelayError
from pgrelay.spark.failures import cause

# An error in foreachBatch passes through the JVM, and comes back as text with Python's traceback.
_OURS: Final = re.compile(r"^(pgrelay(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)


@overload
def query_error(error: StreamingQueryException) -> PgrelayError: ...
@overload
def query_error(error: None) -> None: ...


def query_error(error: StreamingQueryException | None) -> PgrelayError | None:
    """The error that a query of `mirror`, `history` or `apply_changes` ended with, as it was raised there.

    It has its class and text if it is one of ours; any other is a PgrelayError of one line. `error` is what
    `awaitTermination` raises and `exception()` returns; None, of a query that has not failed, stays None.
    """
    if error is None:
        return None
    text = str(error)
    found = _OURS.findall(text)
    if not found:
        return PgrelayError(f"the query failed: {cause(error)}")
    module, name, line = found[-1]
    # Not all classes are in pgrelay.errors; the module of a raised error is loaded.
    kind = getattr(sys.modules.get(module), name, PgrelayError)
    return kind(line) if issubclass(kind, PgrelayError) else PgrelayError(line)
