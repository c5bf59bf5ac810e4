"""What changes are made of, whatever they were read from."""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from pgrelay.spark.names import quoted
from pgrelay.spark.schemas.schema import TableSchema

# Whose record it is, where it is none of ours.
FOREIGN: Final = "no record of a table's change: of schema "

# What stands before the key and the rows, and these.
PLACED: Final = ("topic", "partition", "offset", "op", "commit_lsn", "seq", "txid", "ts")
SIDES: Final = ("before", "after")

# In why a change is corrupt: that a column has such a value.
INEXACT: Final = "is not exactly a "

# And that it has other columns, or another writer schema, than the reader knows.
UNKNOWN: Final = "columns that the schema does not have: "
ABSENT: Final = "columns of the schema that are missing: "
UNREGISTERED: Final = "written under a schema that the registry did not have when it was asked: "
OUTDATED: Final = (UNKNOWN, ABSENT, UNREGISTERED)


def key_of(schema: TableSchema) -> Expression:
    """The struct of the key's columns, out of the row; null where the record has no key."""
    deleted = F.col("op") == "d"
    fields = [
        F.when(deleted, F.col(f"before.{quoted(name)}")).otherwise(F.col(f"after.{quoted(name)}")).alias(name)
        for name in schema.key
    ]
    return F.when(F.col("has_key"), F.struct(*fields))


def unidentified(flat: Expression) -> Expression:
    """Why it can't be told which row an update was of; null where it can, and of what is no update.

    The flat envelope has no old row. With a record key that is no loss: a changed key comes as two changes.
    """
    why = (
        "an update in the flat envelope without a record key, which does not tell what the row was: set "
        "records.envelope: debezium, mirror from behind that change (startingOffsets, a new checkpoint and "
        "target), and UPDATE every row, or of a table without a key TRUNCATE it and insert them again"
    )
    return F.when(flat & (F.col("op") == "u") & ~F.col("has_key"), F.lit(why))
