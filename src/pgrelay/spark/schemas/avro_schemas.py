"""What the Avro schema of a topic's values says: where its rows are, and which field is which column."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from pgrelay.encode.avro.names import legal
from pgrelay.encode.records import FLAT_NAMES

_MAX_DIGITS: Final = 38  # of Spark's decimal

AvroSchema = Any


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """One schema under which values were written. `text` is what Spark reads them by.

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


def writer_schema(number: int, text: str) -> WriterSchema:
    """The schema of that id, from its JSON. Raises ValueError where it is not that of a change."""
    schema = json.loads(text)
    fields = {field["name"]: field for field in schema.get("fields", ())} if isinstance(schema, dict) else {}
    flat = is_flat(fields)
    if not flat and not {"before", "after", "source"} <= fields.keys():
        raise ValueError(f"schema {number} in the registry is not that of a table's changes")
    row = schema if flat else present(fields["before"]["type"])
    columns = {
        field.get("pgrelay.name", field["name"]): field["name"]
        for field in row["fields"]
        if not (flat and field["name"] in FLAT_NAMES)
    }
    return WriterSchema(number, json.dumps(_readable(schema)), flat, columns)


def is_flat(fields: Collection[str]) -> bool:
    """Whether a value with these fields is the row itself; a column of it may be named `after`."""
    return "__commit_lsn" in fields


def field_of(writer: WriterSchema, name: str) -> str | None:
    """The field of a column, None where the schema has none."""
    return writer.columns.get(name) or next((f for f in writer.columns.values() if f == legal(name)), None)


def present(schema: AvroSchema) -> AvroSchema:
    """The type, out of its union with null where it is in one."""
    return next(branch for branch in schema if branch != "null") if isinstance(schema, list) else schema


def _readable(schema: AvroSchema) -> AvroSchema:
    """The same with decimals that Spark has no type for as the bytes that they are."""
    if isinstance(schema, list):
        return [_readable(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("logicalType") == "decimal" and schema["precision"] > _MAX_DIGITS:
        return "bytes"
    return {
        key: _readable(value) if isinstance(value, dict | list) else value for key, value in schema.items()
    }
