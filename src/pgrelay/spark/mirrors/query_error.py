"""Why a streaming query ended: our own error, out of what Spark makes of it."""

import re
import sys
from typing import Final

from pyspark.errors import StreamingQueryException

from pgrelay.errors import PgrelayError

# An error of foreachBatch goes through the JVM, and comes back as a text with Python's traceback in it.
_OURS: Final = re.compile(r"^(pgrelay(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)


def query_error(error: StreamingQueryException) -> PgrelayError:
    """The error that a query of `mirror`, `history` or `apply_changes` ended with, as it was raised in it.

    Of its class and text where it is one of ours, else a PgrelayError with one line. `error` is what
    `awaitTermination` raises and `exception()` gives.
    """
    text = str(error)
    found = _OURS.findall(text)
    if not found:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "unknown")
        return PgrelayError(f"the query failed: {first}")
    module, name, line = found[-1]
    # Not all are of pgrelay.errors; and what was raised is of a module that is loaded.
    kind = getattr(sys.modules.get(module), name, PgrelayError)
    return kind(line) if issubclass(kind, PgrelayError) else PgrelayError(line)
