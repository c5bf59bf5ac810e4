"""Tables that the stream goes on to describe by a name that they no longer have.

With publish_via_partition_root the server describes a root once for each of its partitions, and again only if
the partition is altered. So after the root's rename its rows come under the old name, which may be another
table's by now. PostgreSQL 10 to 15 do the same with every table of a renamed schema. A new stream begins with
new descriptions. It must begin behind the rename: rows from before it would bring the old name again.

Source: PostgreSQL, pgoutput.c, rel_sync_cache_relation_cb; seen on 14 and 18.
"""

from collections.abc import Mapping
from typing import Final

from psycopg import sql

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog

# From this version on, a renamed schema makes the server describe its tables again.
_SCHEMAS_SINCE: Final = 160000

# Of other tables, only the schema's name may be outdated.
_NAMES: Final = sql.SQL(
    "SELECT c.oid::bigint, n.nspname, CASE WHEN c.relkind = 'p' THEN c.relname END "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.oid = ANY (%s::oid[]) AND (c.relkind = 'p' OR %s)"
)


class Renames:
    """One session's. `described` has the Relation messages in force, by OID, without their tags and xids."""

    def __init__(self, described: Mapping[int, bytes], known: set[tuple[int, bytes]]) -> None:
        """`known`, which the sessions share, has what a new stream did not help against."""
        self._described = described
        self._known = known
        self._names: dict[int, bytes] = {}
        self._valid_lsn = 0

    async def ask(self, catalog: Catalog, wal_end: int) -> None:
        """Look up the names that the described tables have now; WAL ended at `wal_end` before that."""
        if self._names or not self._described:
            return
        since = catalog.server_version < _SCHEMAS_SINCE
        rows = await catalog.rows(_NAMES, (list(self._described), since))
        self._names = {
            oid: b"".join(part.encode() + b"\0" for part in names if part is not None) for oid, *names in rows
        }
        self._valid_lsn = wal_end

    def check(self, relayed_lsn: int) -> None:
        """Raises SourceUnavailable if what is streamed from now on would have an outdated name.

        `relayed_lsn`: everything that ends there or before was relayed, by the descriptions in force.
        """
        if relayed_lsn < self._valid_lsn:
            return
        names, self._names = self._names, {}
        for oid, name in names.items():
            body = self._described.get(oid)
            if body is None or body.startswith(name, 4) or (oid, name) in self._known:
                continue
            self._known.add((oid, name))
            old, new = body[4:].split(b"\0")[:2], name.split(b"\0")[:-1]
            told, now = (b".".join(parts).decode() for parts in (old, new + old[len(new) :]))
            raise SourceUnavailable(
                f"{told} is {now} now, and Postgres goes on to send its rows under the old name: beginning a "
                "new stream; rows of the last moments are in the old name's topic"
            )
