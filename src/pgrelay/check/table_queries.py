"""What a check asks about publications and the tables in them. Source: manual, "pg_publication_tables" and
"ALTER TABLE", REPLICA IDENTITY."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from psycopg import sql

from pgrelay.postgres.catalog import OPERATIONS, Catalog
from pgrelay.postgres.facts import PRIMARY_KEY
from pgrelay.postgres.publishable import (
    FIRST_NORMAL_OID,
    PARTITIONED_SINCE,
    PERSISTENT_TABLES,
    SCHEMAS_SINCE,
    TableOrSchema,
    publishable,
)


@dataclass(frozen=True, slots=True)
class Publication:
    """A configured publication; a missing one publishes nothing. `quoted` is its name quoted for SQL."""

    name: str
    quoted: str
    exists: bool
    all_tables: bool
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """`identity` is pg_class.relreplident: d default, f full, i an index, n nothing.

    `primary_key` and `identity_index` are columns, empty if there is none; a `deferrable` primary key
    can't be the default identity. `quoted` is schema and name, quoted for SQL. `large`: it has values in its
    TOAST table.
    """

    oid: int
    schema: str
    name: str
    quoted: str
    identity: str
    primary_key: tuple[str, ...]
    deferrable: bool
    identity_index: tuple[str, ...]
    large: bool = False

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def identified(self) -> bool:
        """Whether Postgres can identify the row of an UPDATE or DELETE."""
        return self.identity == "f" or bool(self._identity_columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key of the table's records."""
        return self.primary_key if self.identity == "f" else self._identity_columns

    @property
    def _identity_columns(self) -> tuple[str, ...]:
        if self.identity == "i":
            return self.identity_index
        return self.primary_key if self.identity == "d" and not self.deferrable else ()


@dataclass(frozen=True, slots=True)
class Published:
    """What a run gets: `tables` as they are published, and `leaves`, the tables that store the rows.

    They differ for a partitioned table that is published as one: `leaves` has its partitions, and `roots`
    maps their OIDs to its own. `updates_published` has the OIDs of tables whose updates or deletes are
    published. `columns` has each distinct list of published columns by OID; `with_column_list` has the OIDs
    of tables with an explicit column list; both are empty before Postgres 15. `schemas` are published whole;
    None means all.
    """

    tables: tuple[Table, ...] = ()
    leaves: tuple[Table, ...] = ()
    roots: dict[int, int] = field(default_factory=dict)
    updates_published: frozenset[int] = frozenset()
    columns: dict[int, list[list[str]]] = field(default_factory=dict)
    with_column_list: frozenset[int] = frozenset()
    schemas: tuple[str, ...] | None = ()
    truncates: bool = True

    @property
    def partial(self) -> frozenset[int]:
        """The OIDs of `tables` whose updates may leave out large values: old rows are not sent whole."""
        return frozenset(
            self.roots.get(table.oid, table.oid)
            for table in self.leaves
            if table.large and table.identity != "f" and table.oid in self.updates_published
        )


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry of `source.tables`; kind and persistence as in pg_class, None if there is no such table."""

    schema: str
    table: str | None
    schema_exists: bool
    kind: str | None
    persistence: str | None
    owned: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.table or '*'}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column whose values are binary with source.binary. `quoted` is its table's name, quoted for SQL."""

    schema: str
    table: str
    quoted: str
    name: str
    type_oid: int
    typmod: int
    type_name: str


async def publications(catalog: Catalog, names: Sequence[str]) -> list[Publication]:
    query = sql.SQL(
        "SELECT w.name, quote_ident(w.name), p.oid IS NOT NULL, coalesce(p.puballtables, false), "
        f"{OPERATIONS} FROM unnest(%s::text[]) WITH ORDINALITY w(name, n) "
        "LEFT JOIN pg_publication p ON p.pubname = w.name ORDER BY w.n"
    )
    rows = await catalog.rows(query, (list(names),))
    return [
        Publication(name, quoted, exists, every, tuple(operations))
        for name, quoted, exists, every, operations in rows
    ]


async def published(catalog: Catalog, names: Sequence[str]) -> Published:
    """What existing publications hold."""
    query = sql.SQL(
        "SELECT c.oid, bool_or(p.pubupdate OR p.pubdelete), {}, {} "
        "FROM pg_publication p JOIN pg_publication_tables t ON t.pubname = p.pubname "
        "JOIN pg_namespace n ON n.nspname = t.schemaname "
        "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename "
        "WHERE p.pubname = ANY (%s) GROUP BY c.oid"
    ).format(*_column_lists(catalog.server_version))
    rows = await catalog.rows(query, (list(names),))
    oids = [row[0] for row in rows]
    leaf_roots = await leaves(catalog, oids)
    return Published(
        tables=await tables(catalog, oids),
        leaves=await tables(catalog, [leaf for leaf, _ in leaf_roots]),
        roots={leaf: table for leaf, table in leaf_roots if leaf != table},
        updates_published=_with_leaves({row[0] for row in rows if row[1]}, leaf_roots),
        columns={row[0]: row[2] for row in rows if row[2]},
        with_column_list=frozenset(row[0] for row in rows if row[3]),
        schemas=await _whole_schemas(catalog, names),
    )


async def planned(catalog: Catalog, names: Sequence[TableOrSchema]) -> Published:
    """What a publication would hold that a run creates, for the given tables or for all."""
    oids = [leaf for leaf, _ in await leaves(catalog, [row[0] for row in await publishable(catalog, names)])]
    found = await tables(catalog, oids)
    schemas = tuple(schema for schema, table in names if table is None)
    return Published(found, found, updates_published=frozenset(oids), schemas=schemas if names else None)


def _column_lists(version: int) -> tuple[sql.SQL, sql.SQL]:
    """SQL: a table's published columns, and whether a publication lists columns (Postgres 15 and later)."""
    if version < 150000:
        return sql.SQL("NULL"), sql.SQL("false")
    listed = (
        "bool_or(EXISTS (SELECT FROM pg_publication_rel r "
        "WHERE r.prpubid = p.oid AND r.prrelid = c.oid AND r.prattrs IS NOT NULL))"
    )
    return sql.SQL("jsonb_agg(DISTINCT to_jsonb(t.attnames))"), sql.SQL(listed)


async def tables(catalog: Catalog, oids: Sequence[int]) -> tuple[Table, ...]:
    key_size = "i.indnkeyatts" if catalog.server_version >= 110000 else "i.indnatts"
    query = sql.SQL(
        "SELECT c.oid, n.nspname, c.relname, format('%%I.%%I', n.nspname, c.relname), c.relreplident::text, "
        "{}, EXISTS (SELECT FROM pg_index i "
        "WHERE i.indrelid = c.oid AND i.indisprimary AND NOT (i.indimmediate AND i.indisvalid)), "
        "ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:{} - 1]) "
        "WHERE i.indrelid = c.oid AND i.indisreplident ORDER BY a.attnum), "
        # Asking for its size would be exact, but waits for locks. relpages is what VACUUM last found.
        "coalesce(t.relpages > 0 OR pg_stat_get_tuples_inserted(t.oid) > 0, false) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = ANY (%s) ORDER BY 2, 3"
    ).format(PRIMARY_KEY, sql.SQL(key_size))
    rows = await catalog.rows(query, (list(oids),)) if oids else []
    return tuple(
        Table(oid, schema, name, quoted, identity, tuple(key), deferrable, tuple(index), large)
        for oid, schema, name, quoted, identity, key, deferrable, index, large in rows
    )


async def leaves(catalog: Catalog, oids: Collection[int]) -> list[tuple[int, int]]:
    """(OID of a table with rows, OID of the given table that it belongs to); equal for a plain table."""
    if catalog.server_version < PARTITIONED_SINCE:
        return [(oid, oid) for oid in oids]
    query = sql.SQL(
        "WITH RECURSIVE part AS (SELECT w.oid AS root, w.oid FROM unnest(%s::oid[]) w(oid) UNION ALL "
        "SELECT part.root, c.oid FROM part JOIN pg_inherits i ON i.inhparent = part.oid "
        "JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition) "
        "SELECT DISTINCT c.oid, part.root FROM part JOIN pg_class c ON c.oid = part.oid AND c.relkind = 'r'"
    )
    return [(row[0], row[1]) for row in await catalog.rows(query, (list(oids),))]


def _with_leaves(oids: set[int], leaf_roots: Sequence[tuple[int, int]]) -> frozenset[int]:
    return frozenset(oids | {leaf for leaf, root in leaf_roots if root in oids})


async def every_table(catalog: Catalog, published: Published) -> list[tuple[int, str]]:
    """OID and schema.table of publishable tables, without partitioned ones whose partitions are published."""
    query = (
        sql.SQL("SELECT c.oid, n.nspname || '.' || c.relname ")
        + PERSISTENT_TABLES
        + sql.SQL(
            "AND NOT (c.relkind = 'p' AND c.oid IN (WITH RECURSIVE above AS ("
            "SELECT inhparent FROM pg_inherits WHERE inhrelid = ANY (%s) UNION "
            "SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.inhparent) TABLE above)) "
            "ORDER BY 2"
        )
    )
    oids = [table.oid for table in published.tables]
    rows = await catalog.rows(query, (["r", "p"], FIRST_NORMAL_OID, oids))
    return [(row[0], row[1]) for row in rows]


async def every_column(catalog: Catalog, oids: Sequence[int]) -> list[str]:
    """The columns of these tables, as schema.table.column."""
    query = sql.SQL(
        "SELECT n.nspname || '.' || c.relname || '.' || a.attname FROM pg_attribute a "
        "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped"
    )
    return [row[0] for row in await catalog.rows(query, (list(oids),))]


async def _whole_schemas(catalog: Catalog, names: Sequence[str]) -> tuple[str, ...] | None:
    every = sql.SQL("SELECT 1 FROM pg_publication WHERE pubname = ANY (%s) AND puballtables")
    if await catalog.rows(every, (list(names),)):
        return None
    if catalog.server_version < SCHEMAS_SINCE:
        return ()
    query = sql.SQL(
        "SELECT DISTINCT n.nspname FROM pg_publication p "
        "JOIN pg_publication_namespace s ON s.pnpubid = p.oid "
        "JOIN pg_namespace n ON n.oid = s.pnnspid WHERE p.pubname = ANY (%s)"
    )
    return tuple(row[0] for row in await catalog.rows(query, (list(names),)))


async def unlogged(catalog: Catalog, schemas: Sequence[str] | None) -> list[str]:
    """Unlogged tables of schemas that are published whole; None means all schemas."""
    query = sql.SQL(
        "SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND (%s::text[] IS NULL OR n.nspname = ANY (%s)) "
        "ORDER BY 1"
    )
    wanted = None if schemas is None else list(schemas)
    return [row[0] for row in await catalog.rows(query, (wanted, wanted))]


async def unpublished_children(catalog: Catalog, parents: Sequence[int], published: Published) -> list[str]:
    """Tables that inherit from these, but no publication names them; without partitions. Quoted for SQL."""
    query = (
        sql.SQL(
            "WITH RECURSIVE child AS (SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY (%s) UNION "
            "SELECT i.inhrelid FROM child JOIN pg_inherits i ON i.inhparent = child.inhrelid) "
            "SELECT format('%%I.%%I', n.nspname, c.relname) "
        )
        + PERSISTENT_TABLES
        + sql.SQL(
            "AND c.oid IN (TABLE child) AND c.oid <> ALL (%s) AND NOT c.relispartition "
            "AND NOT EXISTS (SELECT FROM pg_publication_rel WHERE prrelid = c.oid) ORDER BY 1"
        )
    )
    held = [table.oid for table in published.leaves]
    return [row[0] for row in await catalog.rows(query, (list(parents), ["r"], FIRST_NORMAL_OID, held))]


async def entries(catalog: Catalog, names: Sequence[TableOrSchema]) -> list[TableEntry]:
    query = sql.SQL(
        "SELECT w.s, w.t, n.oid IS NOT NULL, c.relkind::text, c.relpersistence::text, "
        "coalesce(pg_has_role(c.relowner, 'USAGE'), false) "
        "FROM unnest(%s::text[], %s::text[]) w(s, t) LEFT JOIN pg_namespace n ON n.nspname = w.s "
        "LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t"
    )
    wanted = ([schema for schema, _ in names], [table for _, table in names])
    return [TableEntry(*row) for row in await catalog.rows(query, wanted)]


async def binary_columns(catalog: Catalog, published: Published) -> list[Column]:
    """The columns that the server sends in binary if asked to: those whose type has a send function."""
    query = sql.SQL(
        "SELECT a.attrelid, n.nspname, c.relname, format('%%I.%%I', n.nspname, c.relname), a.attname, "
        "a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod) "
        "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped AND t.typsend <> 0 {} "
        "ORDER BY 2, 3, a.attnum"
    ).format(sql.SQL("AND a.attgenerated = ''" if 120000 <= catalog.server_version < 180000 else ""))
    rows = await catalog.rows(query, ([table.oid for table in published.tables],))
    return [Column(*row[1:]) for row in rows if _is_published(row[0], row[4], published)]


async def columns_named(
    catalog: Catalog, published: Published, names: Collection[str]
) -> list[tuple[Table, str]]:
    """The published columns that have one of these names, each with its table."""
    tables = {table.oid: table for table in published.tables}
    query = sql.SQL(
        "SELECT attrelid, attname FROM pg_attribute WHERE attrelid = ANY (%s) AND attname = ANY (%s) "
        "AND attnum > 0 AND NOT attisdropped ORDER BY attrelid, attnum"
    )
    rows = await catalog.rows(query, (list(tables), list(names)))
    return [(tables[oid], name) for oid, name in rows if _is_published(oid, name, published)]


async def unpublished_generated(catalog: Catalog, published: Published) -> dict[int, list[str]]:
    """The generated columns that the server does not send, by their table's OID."""
    if catalog.server_version < 120000:
        return {}
    query = sql.SQL(
        "SELECT attrelid, array_agg(attname::text) FROM pg_attribute "
        "WHERE attrelid = ANY (%s) AND attgenerated <> '' AND NOT attisdropped GROUP BY attrelid"
    )
    rows = await catalog.rows(query, ([table.oid for table in published.tables],))
    may_be_sent = catalog.server_version >= 180000
    return {
        oid: [name for name in names if not (may_be_sent and _is_published(oid, name, published))]
        for oid, names in rows
    }


def _is_published(oid: int, column: str, published: Published) -> bool:
    lists = published.columns.get(oid)
    return lists is None or any(column in names for names in lists)


def lists_differ(lists: Sequence[Sequence[str]]) -> bool:
    """Whether publications disagree on a table's columns; their order does not matter."""
    return any(set(one) != set(other) for one, other in pairwise(lists))
