"""The Avro schemas of keys and values, as the JSON text that a registry takes.

A table's schemas are `{prefix}.{schema}.{table}.Key` and `.Envelope` (flat: `.Value`), whose rows are records
named `.Value`. Tables that a route sends to one topic share that topic's. A column with a name that Avro does
not accept has it in the property `pgrelay.name`. Every column except the key's may be null, which is the
default. So a registry that demands that new readers read old records (BACKWARD) accepts
added and dropped columns.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pgrelay.encode.avro.kinds import Schema
from pgrelay.encode.avro.names import avro_name, avro_namespace, utf8_safe
from pgrelay.encode.avro.plan import AvroColumn, AvroPlan
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.topics import Topics
from pgrelay.wire.pgoutput import Relation

_OWN: Final = "pgrelay"


@dataclass(frozen=True, slots=True)
class Schemas:
    """A topic's schemas from now on; `key` is None if records have no key, `about` is for errors."""

    topic: str
    about: str
    key: str | None
    value: str


@dataclass(frozen=True, slots=True)
class SchemaIds:
    """The ids under which a registry has the schemas."""

    key: int | None
    value: int


def namespace_of(relation: Relation, topic: str, options: RecordOptions, topics: Topics) -> str:
    """The namespace of the schemas of a relation whose rows go to `topic`."""
    if topics.is_routed(relation.namespace, relation.name):
        return avro_namespace(topic)
    return f"{avro_namespace(options.prefix)}.{avro_name(relation.namespace)}.{avro_name(relation.name)}"


def table_schemas(plan: AvroPlan, options: RecordOptions) -> Schemas:
    """The schemas of a relation's rows."""
    key = None
    if plan.keyed:
        fields = [_column(column, False) for column in plan.fields if column.key]
        key = _json(_record("Key", plan.namespace, fields))
    row = [_column(column, column.nullable) for column in plan.fields]
    if options.envelope == "flat":
        own = [_unchanged("__unchanged"), _truncate("__truncate"), *_flat_ending()]
        value = _record("Value", plan.namespace, [*row, *own])
    else:
        before = _field("before", _optional(_record("Value", plan.namespace, row)), None)
        after = _field("after", _optional(f"{plan.namespace}.Value"), None)
        own = [before, after, _unchanged("unchanged"), _truncate("truncate"), *_envelope_fields()]
        value = _record("Envelope", plan.namespace, own)
    return Schemas(plan.topic, plan.table, key, _json(value))


def message_schemas(topic: str, options: RecordOptions) -> Schemas:
    """The schemas of logical messages."""
    namespace = f"{avro_namespace(options.prefix)}.message"
    content = _record("Message", _OWN, [_field("prefix", "string"), _field("content", "bytes")])
    if options.envelope == "flat":
        value = _record("Value", namespace, [_field("__message", content), *_flat_ending()])
    else:
        value = _record("Envelope", namespace, [_field("message", content), *_envelope_fields()])
    key = _record("Key", namespace, [_field("prefix", "string")])
    return Schemas(topic, "logical messages", _json(key) if options.key else None, _json(value))


def transaction_schemas(topic: str, options: RecordOptions) -> Schemas:
    """The schemas of the transaction topic."""
    namespace = f"{avro_namespace(options.prefix)}.transaction"
    count = _record("Count", _OWN, [_field("data_collection", "string"), _field("event_count", "long")])
    value = [
        _field("status", "string"),
        _field("id", "string"),
        _field("event_count", _optional("long"), None),
        _field("data_collections", _optional({"type": "array", "items": count}), None),
        _field("ts_ms", "long"),
        _field("commit_lsn", "long"),
    ]
    key = _record("Key", namespace, [_field("id", "string")])
    return Schemas(topic, "transactions", _json(key), _json(_record("Value", namespace, value)))


def successor(value: str, envelope: str) -> str | None:
    """A registered value's schema plus what ours would add: a registry that refuses this refuses ours.

    None if the registered schema is ours already.
    """
    if f'"namespace":"{_OWN}"' in "".join(value.split()):
        return None
    there = json.loads(value)
    name, namespace = (there.get("name"), there.get("namespace")) if isinstance(there, dict) else ("", "")
    # Without rows: a reader may always leave out fields that were written.
    fields = _flat_ending() if envelope == "flat" else _envelope_fields()
    return _json(_record(name or "Envelope", namespace or "", fields))


def _envelope_fields() -> list[Schema]:
    """The fields after the rows, as `avro.debezium` writes them."""
    names = ("version", "connector", "name")
    source = [
        *(_field(name, "string") for name in names),
        *(_field(name, "long") for name in ("ts_ms", "ts_us")),
        *(_field(name, "string") for name in ("snapshot", "db", "schema", "table")),
        _field("txId", _optional("long"), None),
        _field("lsn", "long"),
        _field("xmin", _optional("long"), None),
        _field("sequence", "string"),
        _field("commit_lsn", "long"),
        _field("seq", "long"),
        _field("origin", _optional("string"), None),
    ]
    place = [_field("id", "string"), _field("total_order", "long"), _field("data_collection_order", "long")]
    return [
        _field("source", _record("Source", _OWN, source)),
        _field("op", "string"),
        _field("ts_ms", "long"),
        _field("ts_us", "long"),
        _field("transaction", _optional(_record("Transaction", _OWN, place)), None),
    ]


def _flat_ending() -> list[Schema]:
    """The last fields of every flat value, as `avro.flat` writes them."""
    longs = [_field(name, "long") for name in ("__commit_lsn", "__seq", "__ts_ms")]
    return [_field("__op", "string"), _field("__deleted", "boolean"), *longs]


def _column(column: AvroColumn, nullable: bool) -> Schema:
    field = _field(column.field, column.schema)
    if nullable:
        field = _field(column.field, _optional(column.schema), None)
    if column.field != column.name:
        field["pgrelay.name"] = utf8_safe(column.name)
    return field


def _unchanged(name: str) -> Schema:
    return _field(name, _optional({"type": "array", "items": "string"}), None)


def _truncate(name: str) -> Schema:
    fields = [_field("cascade", "boolean"), _field("restart_identity", "boolean")]
    return _field(name, _optional(_record("Truncate", _OWN, fields)), None)


def _record(name: str, namespace: str, fields: Iterable[Schema]) -> Schema:
    return {"type": "record", "name": name, "namespace": namespace, "fields": list(fields)}


def _optional(schema: Schema) -> Schema:
    return ["null", schema]


_REQUIRED: Final = object()


def _field(name: str, schema: Schema, default: Any = _REQUIRED) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": schema}
    if default is not _REQUIRED:
        field["default"] = default
    return field


def _json(schema: Schema) -> str:
    return json.dumps(schema, separators=(",", ":"))
