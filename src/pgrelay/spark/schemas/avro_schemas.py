"""The Avro schema of a topic's values: where it has the rows, and which field is which column."""

import json
from dataclasses import dataclass
from typing import Any, Final

from pgrelay.encode.avro.names import avro_name
from pgrelay.encode.records import FLAT_NAMES
from pgrelay.spark.schemas.columns import MAX_DIGITS

# The fields that identify a change of ours; Debezium's own changes have the rest of the envelope.
_SOURCE: Final = {"commit_lsn", "seq"}

AvroSchema = Any


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """One schema under which values were written. `text` is the JSON that Spark reads them with.

    `flat`: the value is the row. `columns`: the row's fields, by the name of the column.
    """

    id: int
    text: str
    flat: bool
    columns: dict[str, str]

    @property
    def decoded(self) -> str:
        """The name of the column that the values of this schema are decoded into."""
        return f"value_{self.id}"


def writer_schema(number: int, text: str) -> WriterSchema | None:
    """The schema of that id, from its JSON; None if it is not that of a change."""
    schema = json.loads(text)
    found = row_of(schema)
    if found is None:
        return None
    fields, flat = found
    columns = {column_of(field): field["name"] for field in fields}
    return WriterSchema(number, json.dumps(_readable(schema)), flat, columns)


def row_of(schema: AvroSchema) -> tuple[list[dict[str, Any]], bool] | None:
    """The fields of a row in a value's schema, and whether that is flat: the value is the row itself.

    None if the schema is not that of a table's changes.
    """
    fields = {field["name"]: field for field in schema.get("fields", ())} if isinstance(schema, dict) else {}
    # Recognized by a name that only we use: a flat row may have a column `after`.
    if "__commit_lsn" in fields:
        return [field for name, field in fields.items() if name not in FLAT_NAMES], True
    if not {"before", "after", "source"} <= fields.keys() or not members(fields["source"]["type"]) >= _SOURCE:
        return None
    return non_null(fields["before"]["type"])["fields"], False


def column_of(field: dict[str, Any]) -> str:
    """The name of a field's column, which need not be legal in Avro."""
    return str(field.get("pgrelay.name", field["name"]))


def members(schema: AvroSchema) -> set[str]:
    """The names of a record's fields; empty if the schema is not a record's."""
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    return {field["name"] for field in fields}


def field_of(writer: WriterSchema, name: str) -> str | None:
    """The field of a column; None if the schema has none."""
    return writer.columns.get(name) or next(
        (f for f in writer.columns.values() if f == avro_name(name)), None
    )


def non_null(schema: AvroSchema) -> AvroSchema:
    """The type, or of a union with null the other branch."""
    return next(branch for branch in schema if branch != "null") if isinstance(schema, list) else schema


def _readable(schema: AvroSchema) -> AvroSchema:
    """The same, with decimals that are too large for Spark's type read as bytes."""
    if isinstance(schema, list):
        return [_readable(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("logicalType") == "decimal" and schema["precision"] > MAX_DIGITS:
        return "bytes"
    return {
        key: _readable(value) if isinstance(value, dict | list) else value for key, value in schema.items()
    }
