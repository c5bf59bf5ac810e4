"""Why a streaming query ended: our own error, recovered from Spark's."""

import re
import sys
from typing import Final, overload

from pyspark.errors import StreamingQueryException

from pgrelay.errors import PgrelayError, SetupError
from pgrelay.spark.failures import root_cause

# An error in foreachBatch passes through the JVM, and comes back as text with Python's traceback.
_OURS: Final = re.compile(r"^(pgrelay(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)
# Spark's text names neither the topic nor a cure; a start does, by the checkpoint.
_LOST: Final = "Some data may have been lost because they are not available in Kafka any more"

_INCOMPLETE: Final = "you must specify all TopicPartitions"


@overload
def query_error(error: StreamingQueryException | PgrelayError) -> PgrelayError: ...
@overload
def query_error(error: None) -> None: ...


def query_error(error: StreamingQueryException | PgrelayError | None) -> PgrelayError | None:
    """The error that a query of `mirror`, `history` or `apply_changes` ended with, as it was raised there.

    It has its class and text if it is one of ours; any other is a PgrelayError of one line. `error` is what
    `awaitTermination` raises and `exception()` returns. What `mirror` itself raised is returned as it is, and
    so is None, of a query that has not failed.
    """
    if error is None or isinstance(error, PgrelayError):
        return error
    text = str(error)
    found = _OURS.findall(text)
    if not found and _LOST in text:
        return PgrelayError(
            "the query failed: records that it was to read are gone from Kafka, a topic was re-created, or "
            "startingOffsets are past its end; start the mirror again, which says what to do; if that is "
            "this again, correct startingOffsets and take a new checkpoint; a query of your own needs a new "
            "checkpoint"
        )
    if not found and _INCOMPLETE in text:
        return SetupError(
            "startingOffsets: Spark begins at them only if they name exactly the partitions that there are: "
            "write -2 for a partition's beginning, -1 for its end, and leave out topics that do not exist yet"
        )
    if not found:
        return PgrelayError(f"the query failed: {root_cause(error)}")
    module, name, line = found[-1]
    # Not all classes are in pgrelay.errors; the module of a raised error is loaded.
    kind = getattr(sys.modules.get(module), name, PgrelayError)
    return kind(line) if issubclass(kind, PgrelayError) else PgrelayError(line)
