"""The current names of tables that the stream may still describe by earlier ones.

For when it does so, and what follows from that, see relay/renames.py.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.lsn import parse_lsn
from pgrelay.postgres.catalog import WAL_END, Catalog

# Since this version, renaming a schema makes the server describe its tables again.
_SCHEMAS_SINCE: Final = 160000

_NAMES: Final = sql.SQL(
    "SELECT c.oid::bigint, n.nspname, CASE WHEN c.relkind = 'p' THEN c.relname END, ({})::text "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.oid = ANY (%s::oid[]) AND (c.relkind = 'p' OR %s)"
).format(WAL_END)


@dataclass(frozen=True, slots=True)
class CurrentName:
    """`root` is the name of a partitioned table; None for others, of which only the schema may be outdated.

    `seen_lsn` is past everything that the query saw.
    """

    oid: int
    schema: str
    root: str | None
    seen_lsn: int


async def current_names(catalog: Catalog, oids: Collection[int]) -> list[CurrentName]:
    """The names of those of the tables whose descriptions may be outdated on this version of the server."""
    rows = await catalog.rows(_NAMES, (list(oids), catalog.server_version < _SCHEMAS_SINCE))
    return [CurrentName(oid, schema, root, parse_lsn(lsn)) for oid, schema, root, lsn in rows]
