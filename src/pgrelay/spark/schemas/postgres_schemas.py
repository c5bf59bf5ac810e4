"""Table schemas from Postgres's own catalogs, for when the schema topic can't be read."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal, LiteralString, get_args

import psycopg
from psycopg.rows import dict_row, tuple_row

from pgrelay.encode.avro.types import avro_text_encoding
from pgrelay.encode.encodings import Encodings
from pgrelay.encode.plan import RelationFacts, column_type
from pgrelay.encode.schema import IDENTITIES
from pgrelay.encode.topics import Topics, collision_key
from pgrelay.encode.types import CatalogType, resolve_type
from pgrelay.encode.values.text import text_encoding
from pgrelay.errors import SetupError
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import UNKNOWN_POSITION, TableSchema, TableVersion, refuse_invalid_prefix
from pgrelay.wire.pgoutput import RelationColumn

# The columns of each table in order. Generated columns are left out, since they are not replicated. Columns
# that an index INCLUDEs are not part of its key, and by default a deferrable primary key identifies no row.
_QUERY: Final[LiteralString] = """
WITH identity(relid, keys) AS (
    SELECT i.indrelid, (i.indkey::int2[])[0:i.indnkeyatts - 1]
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE CASE c.relreplident WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'f' THEN i.indisprimary
        WHEN 'i' THEN i.indisreplident ELSE false END
)
SELECT n.nspname AS schema, c.relname AS table, c.relreplident::text AS identity, a.attname AS name,
    a.atttypid::oid AS oid, a.atttypmod AS typmod, a.attndims::int AS dimensions,
    coalesce(a.attnum = ANY (identity.keys), false) AS key,
    (SELECT system_identifier::text FROM pg_control_system()) AS systemid
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN identity ON identity.relid = c.oid
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\\_toast%' AND n.nspname NOT LIKE 'pg\\_temp%' AND a.attgenerated = ''
ORDER BY n.nspname, c.relname, a.attnum
"""

# Every type, with the fields of CatalogType. The subtype of a range shows in no record.
_TYPES: Final[LiteralString] = """
SELECT t.oid, t.typname, t.typtype::text, t.typbasetype, t.typtypmod, t.typndims::int, t.typelem,
    t.typcategory::text, coalesce(e.typdelim, ',')::text, NULL, true
FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem
"""

_Format = Literal["json", "avro"]
_Numeric = Literal["string", "double", "precise"]
_Time = Literal["iso", "debezium"]
_Binary = Literal["base64", "hex"]
_Json = Literal["string", "inline"]
_CHOICES: Final = {"format": _Format, "numeric": _Numeric, "time": _Time, "binary": _Binary, "json": _Json}


def postgres_schemas(
    dsn: str,
    prefix: str,
    *,
    topic: str = "{prefix}.{schema}.{table}",
    format: _Format = "json",
    numeric: _Numeric = "string",
    time: _Time = "iso",
    binary: _Binary = "base64",
    json: _Json = "string",
) -> dict[str, TableSchema]:
    """The schema of every table of a database as it is now, by topic. PostgreSQL 12 or later.

    Pass what the relay is configured with: `topic` as in `records.topic`, and the encodings. Hidden columns,
    routes and earlier versions are not known here, so prefer `table_schemas`. A topic that several tables
    would share is left out: a relay takes one of them at most. Raises SetupError if an argument is invalid,
    and psycopg.Error.
    """
    if not isinstance(dsn, str):
        raise SetupError(f"dsn={dsn!r}: write how to connect to Postgres, such as 'host=... dbname=...'")
    refuse_invalid_prefix(prefix)
    _refuse_invalid_template(topic)
    _refuse_invalid_choices(format=format, numeric=numeric, time=time, binary=binary, json=json)
    choices = Encodings(numeric=numeric, time=time, binary=binary, json=json)
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        found = connection.execute(_QUERY).fetchall()
        described = connection.cursor(row_factory=tuple_row).execute(_TYPES).fetchall()
    types = {each[0]: CatalogType(*each) for each in described}
    schemas: dict[str, TableSchema] = {}
    named = Counter[str]()
    for (schema, table), rows in groupby(found, key=itemgetter("schema", "table")):
        name = Topics(prefix, topic).claim(schema, table)
        named[collision_key(name)] += 1
        columns = [(row, _column(row, types, choices, format)) for row in rows]
        first = columns[0][0]
        version = TableVersion(
            UNKNOWN_POSITION, tuple(column for _, column in columns), IDENTITIES[first["identity"]]
        )
        schemas[name] = TableSchema(name, schema, table, (version,), first["systemid"])
    return {name: schema for name, schema in schemas.items() if named[collision_key(name)] == 1}


def _refuse_invalid_template(topic: str) -> None:
    """Raise SetupError if a topic can't be made from the template."""
    try:
        topic.format(prefix="", schema="", table="")
    except (AttributeError, KeyError, IndexError, ValueError):
        raise SetupError(
            f"topic={topic!r}: write the relay's records.topic, of {{prefix}}, {{schema}} and {{table}}"
        ) from None


def _refuse_invalid_choices(**chosen: str) -> None:
    """Raise SetupError on an unknown choice, which would silently act as another."""
    for name, value in chosen.items():
        if value not in (known := get_args(_CHOICES[name])):
            raise SetupError(f"{name}={value!r}: write {' or '.join(known)}")


def _column(row: dict[str, Any], types: Mapping[int, CatalogType], choices: Encodings, format: str) -> Column:
    facts = RelationFacts(types={row["oid"]: resolve_type(row["oid"], -1, types)})
    of = column_type(RelationColumn(row["key"], row["name"], row["oid"], row["typmod"]), facts)
    if format == "avro":
        dimensions = row["dimensions"] if row["dimensions"] > 1 else of.dimensions
        encoding = avro_text_encoding(of, choices, dimensions).name
    else:
        encoding = text_encoding(of, choices).name
    return Column(row["name"], of.name, of.typmod, row["key"], encoding, type_oid=row["oid"])
