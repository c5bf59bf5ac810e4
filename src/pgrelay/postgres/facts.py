"""What the catalogue knows about relations and types, and the stream does not say.

Source: PostgreSQL manual, "System Catalogs".
"""

from collections.abc import Iterable
from typing import Final

from psycopg import sql

from pgrelay.encode.plan import FULL, RelationFacts
from pgrelay.encode.types import CatalogType, ColumnType, builtin_type, resolve_type
from pgrelay.postgres.catalog import IDENTITY_INDEX, Catalog
from pgrelay.postgres.snapshot import snapshot, wait_visible
from pgrelay.wire.pgoutput import Relation

# The primary key's columns, in the table's order, of the row `c` of pg_class; empty if there is none.
PRIMARY_KEY: Final = sql.SQL(
    "ARRAY(SELECT a.attname::text FROM pg_constraint k JOIN pg_attribute a "
    "ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) "
    "WHERE k.conrelid = c.oid AND k.contype = 'p' ORDER BY a.attnum)"
)


class Facts:
    """Fetches facts over one connection; raises as the catalogue's queries do."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # Types that are not built in. A dropped one is kept, for rows that were written before.
        self._types: dict[int, ColumnType] = {}

    async def fetch(self, relation: Relation, xid: int | None) -> RelationFacts:
        """What the Relation message does not say: the primary key under FULL, types, arrays' dimensions.

        Waits until queries see `xid`, the transaction that brought the Relation; raises SourceUnavailable if
        that takes too long.
        """
        if _needs_catalog(relation):
            await wait_visible(self._catalog, xid)
        return await self._fetch(relation)

    async def fetch_ahead(self, wanted: Iterable[tuple[Relation, int | None]]) -> list[RelationFacts]:
        """The same for several, without waiting: up to the first whose transaction is not visible yet."""
        now = None
        found: list[RelationFacts] = []
        for relation, xid in wanted:
            if _needs_catalog(relation):
                now = now or await snapshot(self._catalog)
                if not now.is_visible(xid):
                    break
            found.append(await self._fetch(relation))
        return found

    async def _fetch(self, relation: Relation) -> RelationFacts:
        key: tuple[str, ...] = ()
        unlike = ""
        if relation.replica_identity == FULL:
            key, unlike = await self._primary_key(relation.oid), await self._partition_not_full(relation.oid)
        built_in = {c.type_oid: builtin_type(c.type_oid) for c in relation.columns}
        unknown = {oid for oid, found in built_in.items() if found is None}
        types = await self.types(unknown) if unknown else {}
        may_be_arrays = any(found is None or found.is_array for found in built_in.values())
        dimensions = await self._dimensions(relation.oid) if may_be_arrays else {}
        return RelationFacts(key, types, dimensions, unlike)

    async def _dimensions(self, relation_oid: int) -> dict[str, int]:
        """The columns declared as arrays of more than one dimension; a domain has its own."""
        query = sql.SQL(
            "SELECT attname, attndims::int FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attndims > 1"
        )
        return dict(await self._catalog.rows(query, (relation_oid,)))

    async def _primary_key(self, relation_oid: int) -> tuple[str, ...]:
        query = sql.SQL("SELECT {} FROM pg_class c WHERE c.oid = %s").format(PRIMARY_KEY)
        rows = await self._catalog.rows(query, (relation_oid,))
        return tuple(rows[0][0]) if rows else ()

    async def _partition_not_full(self, relation_oid: int) -> str:
        """A partition whose old rows the server does not send in full; empty if there is none."""
        if self._catalog.server_version < 130000:
            return ""
        # Not by pg_partition_tree, which would wait for a lock on any of them.
        query = sql.SQL(
            "WITH RECURSIVE part AS (SELECT inhrelid FROM pg_inherits WHERE inhparent = %s UNION ALL "
            "SELECT i.inhrelid FROM part JOIN pg_inherits i ON i.inhparent = part.inhrelid) "
            "SELECT format('%%I.%%I', n.nspname, c.relname) FROM part JOIN pg_class c ON c.oid = inhrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relispartition AND c.relkind <> 'p' "
            # A root that is no longer FULL was when the rows were written, and its partitions may have been,
            # too: then the stream describes each.
            "AND EXISTS (SELECT FROM pg_class r WHERE r.oid = %s AND r.relreplident = 'f') "
            # Without an index that identifies its rows Postgres refuses to change them.
            f"AND c.relreplident <> 'f' AND {IDENTITY_INDEX} ORDER BY 1 LIMIT 1"
        )
        rows = await self._catalog.rows(query, (relation_oid, relation_oid))
        return rows[0][0] if rows else ""

    async def types(self, wanted: set[int]) -> dict[int, ColumnType]:
        """The types by OID, with those that they are made of, domains resolved to their base type.

        A type that is gone is given as it was when last fetched, or left out if it never was.
        """
        known: dict[int, CatalogType] = {}
        ask = set(wanted)
        query = sql.SQL(
            "SELECT t.oid, t.typname, t.typtype::text, t.typbasetype, t.typtypmod, t.typndims::int, "
            "t.typelem, t.typcategory::text, coalesce(e.typdelim, ',')::text, {}, t.typsend <> 0 "
            "FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem "
            "LEFT JOIN pg_range r ON t.oid IN (r.rngtypid, {}) WHERE t.oid = ANY (%s)"
        ).format(*self._range_columns())
        while ask:
            found = [CatalogType(*row) for row in await self._catalog.rows(query, (list(ask),))]
            known |= {row.oid: row for row in found}
            parts = {oid for row in found for oid in row.parts()}
            ask = {oid for oid in parts if oid not in known and builtin_type(oid) is None}
        self._types |= {oid: resolve_type(oid, -1, known) for oid in wanted if oid in known}
        return {oid: self._types[oid] for oid in wanted if oid in self._types}

    def _range_columns(self) -> tuple[sql.SQL, sql.SQL]:
        """What a range or multirange is made of; multiranges came with PostgreSQL 14."""
        if self._catalog.server_version >= 140000:
            made_of = "CASE WHEN t.typtype = 'm' THEN r.rngtypid ELSE r.rngsubtype END"
            return sql.SQL(made_of), sql.SQL("r.rngmultitypid")
        return sql.SQL("r.rngsubtype"), sql.SQL("r.rngtypid")


def _needs_catalog(relation: Relation) -> bool:
    """Whether the catalogue knows more about the relation than the stream says."""
    built_in = [builtin_type(column.type_oid) for column in relation.columns]
    return relation.replica_identity == FULL or any(of is None or of.is_array for of in built_in)
