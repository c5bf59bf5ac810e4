"""The columns of changes and the reasons why one is corrupt, the same for JSON and Avro."""

from typing import Final

from pgrelay.spark.names import constant, quoted
from pgrelay.spark.records.sql import alias, when
from pgrelay.spark.schemas.schema import TableSchema

# Why a change is corrupt: the record is not a table's change of ours.
FOREIGN: Final = "no record of a table's change: its schema is "

# The columns before the key, and those with rows.
METADATA_COLUMNS: Final = ("topic", "partition", "offset", "op", "commit_lsn", "seq", "txid", "ts")
SIDES: Final = ("before", "after")

# Why a change is corrupt: a column has such a value.
INEXACT: Final = "is not exactly a "
INEXACT_DOCUMENT: Final = "is not a document that Spark keeps exactly"

# Or it has columns, or a writer schema, that the reader does not know.
UNKNOWN: Final = "columns that the schema does not have: "
ABSENT: Final = "columns of the schema that are missing: "
UNREGISTERED: Final = "written under a schema that the registry did not have when it was asked: "
OUTDATED: Final = (UNKNOWN, ABSENT, UNREGISTERED)


def key_struct(schema: TableSchema) -> str:
    """SQL of the key's columns as a struct, read from the row; null if the record has no key."""
    fields = (alias(key_value(name), name) for name in schema.key)
    return when("has_key", f"struct({', '.join(fields)})")


def key_value(name: str) -> str:
    """SQL of the value of a key column, which a delete has only in the old row."""
    return when("op = 'd'", f"before.{quoted(name)}", f"after.{quoted(name)}")


def unidentified_row(flat: str) -> str:
    """SQL of why it is unknown which row an update changed; null if it is known, or this is no update.

    `flat`: SQL of whether the envelope is flat, which has no old row. With a record key nothing is lost: a
    changed key comes as two changes.
    """
    why = (
        "an update in the flat envelope without a record key, which does not show the old row: set "
        "records.envelope: debezium, mirror from after that change (startingOffsets, a new checkpoint and "
        "target), and UPDATE every row, or in a table without a key TRUNCATE it and insert the rows again"
    )
    return when(f"{flat} AND op = 'u' AND NOT has_key", constant(why))
