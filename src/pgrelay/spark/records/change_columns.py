"""What changes consist of, whether they were read from JSON or Avro."""

from typing import Final

from pgrelay.spark.names import constant, quoted
from pgrelay.spark.records.sql import named, when
from pgrelay.spark.schemas.schema import TableSchema

# Why a change is corrupt: the record is not a table's change of ours.
FOREIGN: Final = "no record of a table's change: its schema is "

# The columns before the key, and those of the rows.
PLACED: Final = ("topic", "partition", "offset", "op", "commit_lsn", "seq", "txid", "ts")
SIDES: Final = ("before", "after")

# Why a change is corrupt: a column has such a value.
INEXACT: Final = "is not exactly a "
INEXACT_DOCUMENT: Final = "is not a document that Spark keeps exactly"

# Or it has other columns, or another writer schema, than the reader knows.
UNKNOWN: Final = "columns that the schema does not have: "
ABSENT: Final = "columns of the schema that are missing: "
UNREGISTERED: Final = "written under a schema that the registry did not have when it was asked: "
OUTDATED: Final = (UNKNOWN, ABSENT, UNREGISTERED)


def key_of(schema: TableSchema) -> str:
    """SQL of the struct of the key's columns, taken from the row; null if the record has no key."""
    fields = (named(of_key(name), name) for name in schema.key)
    return when("has_key", f"struct({', '.join(fields)})")


def of_key(name: str) -> str:
    """SQL of the value of a key's column, which a delete has only in the old row."""
    return when("op = 'd'", f"before.{quoted(name)}", f"after.{quoted(name)}")


def unidentified(flat: str) -> str:
    """SQL of why the row that an update changed is unknown; null if it is known, or this is no update.

    `flat`: whether the envelope is flat, which has no old row. With a record key that is no loss: a changed
    key comes as two changes.
    """
    why = (
        "an update in the flat envelope without a record key, which does not show the old row: set "
        "records.envelope: debezium, mirror from after that change (startingOffsets, a new checkpoint and "
        "target), and UPDATE every row, or in a table without a key TRUNCATE it and insert the rows again"
    )
    return when(f"{flat} AND op = 'u' AND NOT has_key", constant(why))
