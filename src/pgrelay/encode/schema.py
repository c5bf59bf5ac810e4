"""The schema topic: what columns a table has, and from which LSN on, for consumers that have no registry.

It gets one record whenever a relation is first seen or has changed. Kafka acknowledges that before the first
row that needs it is sent. It holds from `lsn` (the commit LSN of the transaction that brought it) and, inside
that transaction, from `seq` on. A consumer needs no database credentials and no registry to read the rows.
"""

import json
from typing import Any, Final

from pgrelay.encode.plan import ColumnPlan, Plan
from pgrelay.encode.records import Record

# pg_class.relreplident in the schema topic.
IDENTITIES: Final = {"d": "default", "n": "nothing", "f": "full", "i": "index"}


def schema_record(topic: str, systemid: str, plan: Plan, lsn: int, seq: int) -> Record:
    """The record for the schema topic `topic`; key and value are JSON."""
    relation = plan.relation
    value: dict[str, Any] = {
        "systemid": systemid,
        "topic": plan.topic,
        "schema": relation.namespace,
        "table": relation.name,
        "relation_id": relation.oid,
        "replica_identity": IDENTITIES[relation.replica_identity],
        "lsn": lsn,
        "seq": seq,
        "columns": [_column(column) for column in plan.columns if not column.dropped],
    }
    # One partition, so that a topic's schemas come in the order in which they apply.
    return (topic, _json({"topic": plan.topic}), _json(value), None, 0)


def _column(column: ColumnPlan) -> dict[str, Any]:
    """`hidden` is present only if the values are masks or hashes, which the encoding alone does not show."""
    described = {
        "name": column.name,
        "type_oid": column.type_oid,
        "type_name": column.type.name,
        "type_modifier": column.type.typmod,
        "key": column.key,
        "encoding": column.encoding,
    }
    return described if column.visible else {**described, "hidden": True}


def _json(value: dict[str, Any]) -> bytes:
    # Escaped, so that identifiers that are not UTF-8 (SQL_ASCII) stay valid JSON.
    return json.dumps(value, separators=(",", ":")).encode()
