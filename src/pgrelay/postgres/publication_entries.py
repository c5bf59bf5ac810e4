"""The entries of publications, for tables and for schemas, and which of them are new to a slot.

Source: PostgreSQL manual, "pg_publication_rel" and "pg_publication_namespace".
"""

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.publishable import SCHEMAS_SINCE

# The OID of pg_publication_rel or pg_publication_namespace, and that of the table or schema. Names are only
# for people, since tables may swap theirs.
EntryKey = tuple[int, int]

_TABLES: Final = (
    "SELECT pubname, r.tableoid AS kind, prrelid AS listed, prrelid::regclass::text AS name, r.oid AS entry, "
    "r.xmin AS since, p.xmin AS altered FROM pg_publication_rel r JOIN pg_publication p ON p.oid = prpubid "
    # Since PostgreSQL 19 an entry may be one of EXCEPT.
    "WHERE NOT coalesce((to_jsonb(r) ->> 'prexcept')::bool, false)"
)
_SCHEMAS: Final = (
    " UNION ALL SELECT pubname, n.tableoid, pnnspid, pnnspid::regnamespace::text || '.*', n.oid, "
    "n.xmin, p.xmin FROM pg_publication_namespace n JOIN pg_publication p ON p.oid = pnpubid"
)
# Written since the slot's position, or somewhat before: a new slot inherits the catalog_xmin of another one
# that is behind, and a long transaction holds it back. Postgres has no better bound.
_RECENT: Final = sql.SQL("age({}) BETWEEN 0 AND age(catalog_xmin)")


async def entries(catalog: Catalog, names: Sequence[str]) -> dict[EntryKey, tuple[str, frozenset[int]]]:
    """What the publications contain: the quoted name of each table or schema, and the OIDs of its entries.

    An entry that was taken out and put back has another OID.
    """
    query = sql.SQL(
        "SELECT kind, listed, name, array_agg(entry) FROM ({}) AS e WHERE pubname = ANY (%s) GROUP BY 1, 2, 3"
    ).format(_entries(catalog))
    rows = await catalog.rows(query, (list(names),))
    return {(kind, listed): (name, frozenset(oids)) for kind, listed, name, oids in rows}


async def changed_publications(catalog: Catalog, names: Sequence[str], slot: str) -> list[str]:
    """Those that were created or altered since the slot's position, or somewhat before: see `_RECENT`."""
    query = sql.SQL(
        "SELECT pubname FROM pg_publication p, pg_replication_slots WHERE pubname = ANY (%s) "
        "AND slot_name = %s AND {} ORDER BY 1"
    ).format(_RECENT.format(sql.SQL("p.xmin")))
    return [row[0] for row in await catalog.rows(query, (list(names), slot))]


async def new_entries(catalog: Catalog, names: Sequence[str], slot: str) -> list[str]:
    """Names of what was added to the publications since then, and that none of them contained before.

    Without what a publication was created with: that is in `changed_publications`.
    """
    query = sql.SQL(
        "SELECT name FROM ({}) AS e, pg_replication_slots WHERE pubname = ANY (%s) AND slot_name = %s "
        "GROUP BY kind, listed, name HAVING bool_and({}) AND bool_or(since <> altered) ORDER BY 1"
    ).format(_entries(catalog), _RECENT.format(sql.SQL("since")))
    return [row[0] for row in await catalog.rows(query, (list(names), slot))]


def _entries(catalog: Catalog) -> sql.SQL:
    """A query; `since` is the xmin of the entry, `altered` that of its publication."""
    return sql.SQL(_TABLES + _SCHEMAS if catalog.server_version >= SCHEMAS_SINCE else _TABLES)
