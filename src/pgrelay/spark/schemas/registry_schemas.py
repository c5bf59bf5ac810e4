"""Table schemas from a schema registry: what the Avro schemas of a topic say of its table."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pgrelay.encode.avro.names import avro_name
from pgrelay.errors import SetupError
from pgrelay.spark.schemas.avro_schemas import AvroSchema, column_of, non_null, row_of
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.registry import Registry
from pgrelay.spark.schemas.schema import UNKNOWN_POSITION, TableSchema, TableVersion, topic_list

# The Postgres type that each Avro type stands for; a registry knows no more than that.
_TYPES: Final = {
    "int": "int4",
    "long": "int8",
    "float": "float4",
    "double": "float8",
    "boolean": "bool",
    "bytes": "bytea",
    "date": "date",
    "timestamp-micros": "timestamptz",
    "local-timestamp-micros": "timestamp",
    "time-micros": "time",
    "uuid": "uuid",
    "string": "text",
}


def registry_schemas(registry: str | Mapping[str, Any], topics: Iterable[str]) -> dict[str, TableSchema]:
    """The schemas of tables whose topics are in Avro, by topic: their last versions.

    16-bit integers become 32-bit, which is what they are in Avro. A registry knows neither LSNs nor the
    replica identity, so prefer `table_schemas`. Raises SetupError if a topic's values are not changes.
    """
    wanted = topic_list(topics)
    client = Registry(registry)
    return {topic: _schema(topic, *client.latest_schemas(topic)) for topic in wanted}


def _schema(topic: str, key: str | None, value: str) -> TableSchema:
    schema = json.loads(value)
    found = row_of(schema)
    if found is None:
        raise SetupError(
            f"{topic}: the last schema of subject {topic}-value is not that of a table's changes: leave the "
            "topic out"
        )
    fields, _ = found
    keys = {field["name"] for field in json.loads(key)["fields"]} if key is not None else set[str]()
    columns = [_column(field, keys) for field in fields]
    _, namespace, table = f"..{schema['namespace']}".rsplit(".", 2)
    return TableSchema(topic, namespace, table, (TableVersion(UNKNOWN_POSITION, tuple(columns)),))


def _column(field: dict[str, Any], keys: set[str]) -> Column:
    name = column_of(field)
    type_name, typmod, encoding = _described(non_null(field["type"]))
    return Column(name, type_name, typmod, avro_name(name) in keys, encoding)


def _described(schema: AvroSchema) -> tuple[str, int, str]:
    """Type name, type modifier and encoding, as the schema topic would give them."""
    if isinstance(schema, str):
        return _TYPES[schema], -1, schema
    if schema["type"] == "array":
        name, typmod, encoding = _described(non_null(schema["items"]))
        return name if name.startswith("_") else f"_{name}", typmod, f"array<{encoding}>"
    if schema["type"] == "map":
        return "hstore", -1, "map<string>"
    if schema.get("logicalType") == "decimal":
        precision, scale = schema["precision"], schema["scale"]
        return "numeric", (precision << 16 | scale) + 4, f"decimal({precision},{scale})"
    return _TYPES[schema["logicalType"]], -1, schema["logicalType"]
