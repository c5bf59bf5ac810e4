"""Table schemas out of Postgres's own catalogue, where the schema topic is not to be read."""

from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal, LiteralString

import psycopg
from psycopg.rows import dict_row

from pgrelay.encode.avro.types import avro_type
from pgrelay.encode.schema import IDENTITIES
from pgrelay.encode.topics import Topics
from pgrelay.encode.types import ColumnType, Encodings, builtin_type
from pgrelay.encode.values.text import text_encoding
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion

# Of each table its columns in order, domains followed to their base types. Generated columns are not
# replicated.
_QUERY: Final[LiteralString] = """
WITH RECURSIVE base(id, oid, typmod) AS (
    SELECT oid, oid, NULL::int FROM pg_type
    UNION ALL
    SELECT base.id, t.typbasetype, coalesce(nullif(t.typtypmod, -1), base.typmod)
    FROM base JOIN pg_type t ON t.oid = base.oid WHERE t.typtype = 'd'
), identity(relid, keys) AS (
    SELECT i.indrelid, i.indkey::int2[] FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
    WHERE CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'n' THEN false ELSE i.indisprimary END
)
SELECT n.nspname AS schema, c.relname AS table, c.relreplident::text AS identity, a.attname AS name, t.oid,
    t.typname AS type, t.typtype::text AS typtype, t.typdelim::text AS delimiter, a.attndims AS dimensions,
    coalesce(nullif(a.atttypmod, -1), base.typmod, -1) AS typmod,
    CASE WHEN t.typcategory = 'A' THEN t.typelem END AS element,
    (SELECT e.typname FROM pg_type e WHERE e.oid = t.typelem) AS element_name,
    coalesce(a.attnum = ANY (identity.keys), false) AS key,
    (SELECT system_identifier::text FROM pg_control_system()) AS systemid
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN base ON base.id = a.atttypid
JOIN pg_type t ON t.oid = base.oid AND t.typtype <> 'd'
LEFT JOIN identity ON identity.relid = c.oid
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\\_toast%' AND n.nspname NOT LIKE 'pg\\_temp%' AND a.attgenerated = ''
ORDER BY n.nspname, c.relname, a.attnum
"""


def postgres_schemas(
    dsn: str,
    prefix: str,
    *,
    topic: str = "{prefix}.{schema}.{table}",
    format: Literal["json", "avro"] = "json",
    numeric: Literal["string", "double", "precise"] = "string",
    time: Literal["iso", "debezium"] = "iso",
    binary: Literal["base64", "hex"] = "base64",
    json: Literal["string", "inline"] = "string",
) -> dict[str, TableSchema]:
    """The schema of every table of a database as it is now, by topic. PostgreSQL 12 or later.

    What the relay is configured with has to be said: `topic` as in `records.topic`, and the encodings.
    Columns that it hides, and routes, are not known here; nor are earlier versions, so prefer
    `table_schemas`.
    """
    topics = Topics(prefix, topic)
    choices = Encodings(numeric=numeric, time=time, binary=binary, json=json)
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        found = connection.execute(_QUERY).fetchall()
    schemas = {}
    for (schema, table), rows in groupby(found, key=itemgetter("schema", "table")):
        name = topics.claim(schema, table)
        columns = [(row, _column(row, choices, format)) for row in rows]
        first = columns[0][0]
        version = TableVersion((0, 0), tuple(column for _, column in columns), IDENTITIES[first["identity"]])
        schemas[name] = TableSchema(name, schema, table, (version,), first["systemid"])
    return schemas


def _column(row: dict[str, Any], choices: Encodings, format: str) -> Column:
    of = builtin_type(row["oid"], row["typmod"]) or _type(row)
    if format == "avro":
        encoding = avro_type(of, choices, max(row["dimensions"], 1)).name
    else:
        encoding = text_encoding(of, choices).name
    return Column(row["name"], of.name, of.typmod, row["key"], encoding)


def _type(row: dict[str, Any]) -> ColumnType:
    """A type that is not built in."""
    element = None
    if row["element"]:
        element = builtin_type(row["element"]) or ColumnType(row["element"], row["element_name"])
    return ColumnType(row["oid"], row["type"], row["typmod"], element, row["delimiter"], row["typtype"])
