"""Why a streaming query ended: our own error, if it was one, out of what Spark makes of it."""

import re
import sys
from typing import Final

from pyspark.errors import StreamingQueryException

from pgrelay.errors import PgrelayError

# An error of foreachBatch goes through the JVM, and comes back as a text with Python's traceback in it.
_OURS: Final = re.compile(r"^(pgrelay(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)


def reason(error: StreamingQueryException) -> PgrelayError:
    """The error to end with: of our class and text where one of ours was raised, else one with a line."""
    text = str(error)
    found = _OURS.findall(text)
    if not found:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "unknown")
        return PgrelayError(f"the query failed: {first}")
    module, name, line = found[-1]
    # Not all are of pgrelay.errors; and what was raised is of a module that is loaded.
    kind = getattr(sys.modules.get(module), name, PgrelayError)
    return kind(line) if issubclass(kind, PgrelayError) else PgrelayError(line)
