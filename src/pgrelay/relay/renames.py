"""Detects tables that the stream still describes by a name that they no longer have.

With publish_via_partition_root the server describes a root once for each of its partitions, and again only if
the partition is altered. So after the root's rename its rows come under the old name, which may be another
table's by now. PostgreSQL 10 to 15 keep the old name of a renamed schema in the same way, for every table. A
new stream begins with new descriptions. It must begin after the rename: rows from before it would bring the
old description again. Rows of a transaction that was open at the time can do so all the same, hence the
retries.

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

# Between two attempts for the same table, while none has helped; it doubles.
_FIRST_PAUSE_S: Final = 60.0
_MAX_PAUSE_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class RenameAttempt:
    """A new stream was begun for the table now named `name`, and may be again from `again_at` on."""

    name: str
    pause_s: float
    again_at: float


class Renames:
    """One session's check. `described` has the Relation messages in force, by OID, without tag and xid."""

    def __init__(
        self,
        described: Mapping[int, bytes],
        is_relayed: Callable[[str], bool],
        tried: dict[int, RenameAttempt],
    ) -> None:
        """`is_relayed` is given a `schema.table`; `tried` is shared by all sessions."""
        self._described = described
        self._is_relayed = is_relayed
        self._tried = tried
        # By OID: the Relation message that was in force, and the name in the catalogue.
        self._looked_up: dict[int, tuple[bytes, CurrentName]] = {}
        self._valid_lsn = 0

    async def look_up(self, catalog: Catalog) -> None:
        """Look up the names of the described tables, unless an answer still waits."""
        if self._looked_up or not self._described:
            return
        before = dict(self._described)
        for name in await current_names(catalog, before):
            self._looked_up[name.oid] = before[name.oid], name
            self._valid_lsn = name.seen_lsn

    def check(self, relayed_lsn: int) -> None:
        """Raises SourceUnavailable if what is streamed from now on would have an outdated name.

        `relayed_lsn`: everything that ends there or before was relayed under the descriptions in force.
        """
        if not self._looked_up or relayed_lsn < self._valid_lsn:
            return
        found, self._looked_up = self._looked_up, {}
        for oid, (body, name) in found.items():
            if self._described.get(oid) is not body:
                continue  # it may be newer than the answer
            was_schema, was_table = relation_name(body)
            was, now = f"{was_schema}.{was_table}", f"{name.schema}.{name.root or was_table}"
            if was == now:
                self._tried.pop(oid, None)
            elif (self._is_relayed(was) or self._is_relayed(now)) and self._may_restart(oid, now):
                raise SourceUnavailable(
                    f"{was} is {now} now, and Postgres may go on to send its rows under the old name: "
                    "beginning a new stream; its last rows before that may be in the old name's topic"
                )

    def _may_restart(self, oid: int, now: str) -> bool:
        """Whether to begin a new stream for this table; if so, notes the attempt."""
        clock_s, tried, pause_s = time.monotonic(), self._tried.get(oid), _FIRST_PAUSE_S
        if tried is not None and tried.name == now:
            if clock_s < tried.again_at:
                return False
            pause_s = min(2 * tried.pause_s, _MAX_PAUSE_S)
        self._tried[oid] = RenameAttempt(now, pause_s, clock_s + pause_s)
        return True
