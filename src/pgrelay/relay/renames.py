"""Tables that the stream goes on to describe as they no longer are.

With publish_via_partition_root the server describes a root once for each of its partitions, and again only if
the partition is altered. So after the root's rename its rows come under the old name, which may be another
table's by now; and after its ALTER TABLE ... REPLICA IDENTITY with the old identity. PostgreSQL 10 to 15 keep
the old name of a renamed schema in the same way, for every table. A new stream begins with new descriptions.
It must begin behind the change: rows from before it would bring the old description again. Those of a
transaction that was open meanwhile can do so all the same, so it is tried again.

Source: PostgreSQL, pgoutput.c, rel_sync_cache_relation_cb; seen on 14 and 18.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.errors import SourceUnavailable
from pgrelay.lsn import parse_lsn
from pgrelay.postgres.catalog import Catalog

# From this version on, a renamed schema makes the server describe its tables again.
_SCHEMAS_SINCE: Final = 160000

# Of other tables than roots, only the schema's name may be outdated. The LSN is past whatever the query sees.
_ASKED: Final = sql.SQL(
    "SELECT c.oid::bigint, n.nspname, CASE WHEN c.relkind = 'p' THEN c.relname END, c.relreplident::text, "
    "(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "ELSE pg_current_wal_insert_lsn() END)::text "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.oid = ANY (%s::oid[]) AND (c.relkind = 'p' OR %s)"
)

# Between two tries for the same table, if nothing has helped; it doubles.
_FIRST_PAUSE_S: Final = 60.0
_MOST_PAUSE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Tried:
    """A new stream was begun for a table that is described by `now`, and may be again at `again_at`."""

    now: bytes
    pause_s: float
    again_at: float


class Renames:
    """One session's. `described` has the Relation messages in force, by OID, without their tags and xids."""

    def __init__(self, described: Mapping[int, bytes], tried: dict[int, Tried]) -> None:
        """`tried` is shared by all sessions."""
        self._described = described
        self._tried = tried
        # How each Relation message should begin, after the OID; and the LSN from which on it should.
        self._expected: dict[int, bytes] = {}
        self._valid_lsn = 0

    async def ask(self, catalog: Catalog) -> None:
        """Look up how the described tables should be described now, unless an answer still waits."""
        if self._expected or not self._described:
            return
        since = catalog.server_version < _SCHEMAS_SINCE
        for oid, schema, root, identity, lsn in await catalog.rows(_ASKED, (list(self._described), since)):
            self._expected[oid] = schema.encode() + b"\0"
            if root is not None:
                self._expected[oid] += root.encode() + b"\0" + identity.encode()
            self._valid_lsn = parse_lsn(lsn)

    def check(self, relayed_lsn: int) -> None:
        """Raises SourceUnavailable if what is streamed from now on would be described wrongly.

        `relayed_lsn`: everything that ends there or before was relayed, by the descriptions in force.
        """
        if not self._expected or relayed_lsn < self._valid_lsn:
            return
        expected, self._expected = self._expected, {}
        for oid, now in expected.items():
            body = self._described.get(oid)
            if body is None:
                continue
            if body.startswith(now, 4):
                self._tried.pop(oid, None)
            elif self._may_help(oid, now):
                raise SourceUnavailable(_outdated(body[4:], now))

    def _may_help(self, oid: int, now: bytes) -> bool:
        """Whether to begin a new stream for this table; then that is noted."""
        clock_s, tried, pause_s = time.monotonic(), self._tried.get(oid), _FIRST_PAUSE_S
        if tried is not None and tried.now == now:
            if clock_s < tried.again_at:
                return False
            pause_s = min(2 * tried.pause_s, _MOST_PAUSE_S)
        self._tried[oid] = Tried(now, pause_s, clock_s + pause_s)
        return True


def _outdated(told: bytes, now: bytes) -> str:
    """What the reason is; both begin with a schema's name, and mostly a table's follows."""
    was, names = told.split(b"\0", 2), now.split(b"\0", 2)
    old, new = (
        f"{schema.decode()}.{table.decode()}" for schema, table in (was[:2], (names[0], names[1] or was[1]))
    )
    goes_on = "and Postgres may go on to describe it as it was: beginning a new stream"
    if old == new:
        return f"{old} has another replica identity now, {goes_on}"
    return f"{old} is {new} now, {goes_on}; its last rows before that may be in the old name's topic"
