"""What a publication can contain, and the statement that creates one.

Source: PostgreSQL manual, "CREATE PUBLICATION".
"""

from collections.abc import Sequence
from typing import Final, LiteralString

from psycopg import sql

from pgrelay.errors import SetupError
from pgrelay.postgres.catalog import Catalog

# Lower OIDs are the system's own tables, which no publication contains.
FIRST_NORMAL_OID: Final = 16384
# Users' tables, of the given kinds and from the given OID; temporary and unlogged ones can't be published.
PERSISTENT_TABLES: Final = sql.SQL(
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind = ANY (%s) AND c.relpersistence = 'p' AND c.oid >= %s "
    "AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
)
# Since this version a publication can contain a partitioned table.
PARTITIONED_SINCE: Final = 130000
# And since this one a schema.
SCHEMAS_SINCE: Final = 150000

# A table, (schema, table), or with None a whole schema.
TableOrSchema = tuple[str, str | None]


async def create_publication(catalog: Catalog, name: str, tables: Sequence[TableOrSchema]) -> None:
    """Create a publication of `tables`. Raises SetupError if the server or our role can't."""
    statement = await publication_statement(catalog, name, tables)
    if await catalog.in_recovery():
        raise SetupError(
            f"source.publications: {name} does not exist in database {catalog.database}, and a standby can't "
            f"create it; on the primary, {statement.as_string()}"
        )
    try:
        await catalog.rows(statement)
    except SetupError as refusal:
        raise SetupError(
            f"source.tables: publication {name} can't be created: {refusal}; name existing tables there "
            "that our role owns, or run CREATE PUBLICATION as a role that may, or correct "
            "source.publications"
        ) from refusal


async def publication_statement(catalog: Catalog, name: str, tables: Sequence[TableOrSchema]) -> sql.Composed:
    """CREATE PUBLICATION for these tables and schemas; none given: for all tables.

    Before PostgreSQL 15, raises SetupError for a schema without tables.
    """
    parts: list[sql.Composable] = [sql.SQL("ALL TABLES")]
    if tables:
        schemas = [schema for schema, table in tables if table is None]
        named = [(schema, table) for schema, table in tables if table is not None]
        if catalog.server_version < SCHEMAS_SINCE:
            # Before 15 a publication can't follow a schema: it gets the tables that exist now.
            named += [name for schema in schemas for name in await _tables_in(catalog, schema)]
            schemas = []
        parts = []
        if named:
            # Without ONLY, the tables that inherit from one would come too, named or not.
            parts.append(sql.SQL("TABLE ONLY ") + _separated(", ONLY ", named))
        if schemas:
            parts.append(sql.SQL("TABLES IN SCHEMA ") + _separated(", ", [(schema,) for schema in schemas]))
    create = sql.SQL("CREATE PUBLICATION {} FOR ").format(sql.Identifier(name))
    return create + sql.SQL(", ").join(parts)


async def publishable(catalog: Catalog, names: Sequence[TableOrSchema]) -> list[tuple[int, str, str]]:
    """OID, schema and name of what a publication of `names`, as in `publication_statement`, can contain."""
    query = sql.SQL("SELECT c.oid, n.nspname, c.relname ") + PERSISTENT_TABLES
    parameters: list[object] = [
        ["r", "p"] if catalog.server_version >= PARTITIONED_SINCE else ["r"],
        FIRST_NORMAL_OID,
    ]
    if names:
        query += sql.SQL(
            "AND EXISTS (SELECT FROM unnest(%s::text[], %s::text[]) w(s, t) "
            "WHERE w.s = n.nspname AND coalesce(w.t, c.relname) = c.relname) "
        )
        parameters += [[schema for schema, _ in names], [table for _, table in names]]
    rows = await catalog.rows(query + sql.SQL("ORDER BY 2, 3"), parameters)
    return [(oid, schema, name) for oid, schema, name in rows]


async def _tables_in(catalog: Catalog, schema: str) -> list[tuple[str, str]]:
    tables = [(schema, name) for _, schema, name in await publishable(catalog, [(schema, None)])]
    if not tables:
        raise SetupError(
            f"source.tables: schema {schema} has no tables that can be published; create some, or correct it"
        )
    return tables


def _separated(by: LiteralString, names: Sequence[tuple[str, ...]]) -> sql.Composed:
    return sql.SQL(by).join(sql.Identifier(*name) for name in names)
