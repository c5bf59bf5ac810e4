"""Tables that the stream goes on to describe by a name that they no longer have.

With publish_via_partition_root the server describes a root once for each of its partitions, and again only if
the partition is altered. So after the root's rename its rows come under the old name, which may be another
table's by now. PostgreSQL 10 to 15 keep the old name of a renamed schema in the same way, for every table. A
new stream begins with new descriptions. It must begin behind the rename: rows from before it would bring the
old description again. Those of a transaction that was open meanwhile can do so all the same, so it is tried
again.

Source: PostgreSQL, pgoutput.c, rel_sync_cache_relation_cb; seen on 14 and 18.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.current_names import CurrentName, current_names
from pgrelay.wire.pgoutput import relation_name

# Between two tries for the same table, if nothing has helped; it doubles.
_FIRST_PAUSE_S: Final = 60.0
_MOST_PAUSE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Tried:
    """A new stream was begun for a table of the name `now`, and may be again at `again_at`."""

    now: str
    pause_s: float
    again_at: float


class Renames:
    """One session's. `described` has the Relation messages in force, by OID, without their tags and xids."""

    def __init__(
        self, described: Mapping[int, bytes], takes: Callable[[str], bool], tried: dict[int, Tried]
    ) -> None:
        """`takes` says if a table is relayed, as `schema.table`; `tried` is shared by all sessions."""
        self._described = described
        self._takes = takes
        self._tried = tried
        # By OID: the Relation message that was in force, and the name in the catalogue.
        self._asked: dict[int, tuple[bytes, CurrentName]] = {}
        self._valid_lsn = 0

    async def ask(self, catalog: Catalog) -> None:
        """Look up the names of the described tables, unless an answer still waits."""
        if self._asked or not self._described:
            return
        before = dict(self._described)
        for name in await current_names(catalog, before):
            self._asked[name.oid] = before[name.oid], name
            self._valid_lsn = name.seen_lsn

    def check(self, relayed_lsn: int) -> None:
        """Raises SourceUnavailable if what is streamed from now on would have an outdated name.

        `relayed_lsn`: everything that ends there or before was relayed, by the descriptions in force.
        """
        if not self._asked or relayed_lsn < self._valid_lsn:
            return
        asked, self._asked = self._asked, {}
        for oid, (body, name) in asked.items():
            if self._described.get(oid) is not body:
                continue  # it may be newer than the answer
            was_schema, was_table = relation_name(body)
            was, now = f"{was_schema}.{was_table}", f"{name.schema}.{name.root or was_table}"
            if was == now:
                self._tried.pop(oid, None)
            elif (self._takes(was) or self._takes(now)) and self._may_help(oid, now):
                raise SourceUnavailable(
                    f"{was} is {now} now, and Postgres may go on to send its rows under the old name: "
                    "beginning a new stream; its last rows before that may be in the old name's topic"
                )

    def _may_help(self, oid: int, now: str) -> bool:
        """Whether to begin a new stream for this table; then that is noted."""
        clock_s, tried, pause_s = time.monotonic(), self._tried.get(oid), _FIRST_PAUSE_S
        if tried is not None and tried.now == now:
            if clock_s < tried.again_at:
                return False
            pause_s = min(2 * tried.pause_s, _MOST_PAUSE_S)
        self._tried[oid] = Tried(now, pause_s, clock_s + pause_s)
        return True
