"""The table of records that can't be applied exactly (`corrupt_to`)."""

from threading import Lock
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from pgrelay.errors import SetupError
from pgrelay.spark.lake.tables import LakeTable

# Where a record is.
RECORD_COLUMNS: Final = ("topic", "partition", "offset")

# The property that shows that such a table is ours.
CORRUPT_PROPERTY: Final = "pgrelay.corrupt"

_TABLE = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("corrupt", StringType())
)

# The tables of a batch share it, and Delta can neither create it nor merge into it twice at once.
_LOCK: Final = Lock()


def refuse_foreign(rejects: LakeTable) -> None:
    """Raise SetupError if the table for rejects exists, but pgrelay did not create it as such."""
    if rejects.exists() and CORRUPT_PROPERTY not in rejects.properties():
        raise SetupError(
            f"corrupt_to: {rejects.name} exists, and pgrelay did not make it for such records: name another"
        )


def set_aside(rejects: LakeTable, records: DataFrame) -> None:
    """Keep the records, each once, however often its batch is repeated.

    A re-created topic has other records at the same places. Raises SetupError as `refuse_foreign` does.
    """
    refuse_foreign(rejects)
    # By name: somebody may have added columns, to record what was done about a record.
    columns, values = ", ".join(_TABLE.names), ", ".join(f"s.{name}" for name in _TABLE.names)
    with _LOCK:
        rejects.create(_TABLE, {CORRUPT_PROPERTY: "true"})
        rejects.run(
            f"MERGE INTO {rejects.name} t USING {{records}} s"
            " ON t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset"
            " AND t.corrupt = s.corrupt"
            f" WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})",
            records=rejects.merge_source(records.select(*_TABLE.names)),
        )
