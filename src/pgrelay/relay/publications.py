"""The publications of a stream: created if the configuration says so, and checked to remain the same.

PostgreSQL 18 does not send what was written while one was missing, and only warns in its own log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from pgrelay.config import SourceConfig
from pgrelay.errors import RESET_CURE, SetupError
from pgrelay.lsn import format_lsn
from pgrelay.postgres import publication_entries
from pgrelay.postgres.catalog import Catalog, PublicationRow
from pgrelay.postgres.publishable import create_publication
from pgrelay.postgres.slots import Slot

_log = structlog.get_logger(__name__)

# How many tables a log line names.
MAX_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """`names` has the tables whose rows the server sends, as `schema.table`, by OID.

    `unpublished` has the OIDs of those that this process saw published earlier, and that still exist.
    """

    names: Mapping[int, str]
    unpublished: frozenset[int]


class Publications:
    """The configured publications, by name and OID, as this process has seen them."""

    def __init__(self, config: SourceConfig) -> None:
        self._config = config
        self.names = config.publications
        self._found: Mapping[str, PublicationRow] = {}
        # See `publication_entries.entries`.
        self._entries: Mapping[publication_entries.EntryKey, tuple[str, frozenset[int]]] = {}
        # The OIDs of tables that are or were published, and exist.
        self._tables: frozenset[int] = frozenset()

    async def require(self, catalog: Catalog, slot: Slot | None) -> str | None:
        """Check that all exist. A missing one is created if there is no slot yet, and returned.

        Raises SetupError.
        """
        config = self._config
        missing = self._missing(await catalog.publications(self.names))
        if not missing:
            if slot is not None and not self._found:
                await self._warn_of_possible_changes(catalog)
            return None
        if slot is not None:
            # Rows written while it was missing stay out of the stream, even if it is re-created.
            raise SetupError(
                f"source.publications: {', '.join(missing)} does not exist in database {catalog.database}, "
                f"although slot {config.slot} does; correct the name or, if it was dropped, {RESET_CURE}"
            )
        if not config.create or len(self.names) > 1:
            raise SetupError(
                f"source.publications: {', '.join(missing)} does not exist in database {catalog.database}; "
                "run CREATE PUBLICATION, or correct the name"
            )
        holds = ", ".join(config.tables) or "all tables"
        _log.info("creating the publication", publication=missing[0], tables=holds)
        await create_publication(catalog, missing[0], config.table_names())
        return missing[0]

    async def check(self, catalog: Catalog, relayed_lsn: int) -> None:
        """Raises SetupError if one was dropped, or dropped and re-created, since this process first looked.

        Warns if one was altered, or if tables were taken out and put back since the last look. `relayed_lsn`:
        the LSN up to which everything was relayed, for the error.
        """
        now = await catalog.publications(self.names)
        if missing := self._missing(now):
            raise SetupError(
                f"publication {', '.join(missing)} was dropped while we streamed it: rows are missing from "
                f"{format_lsn(relayed_lsn)} on; re-create it, and copy its tables again"
            )
        if recreated := [name for name, it in now.items() if self._found.get(name, it).oid != it.oid]:
            raise SetupError(
                f"publication {', '.join(recreated)} was dropped and re-created: rows written in between are "
                f"missing, from {format_lsn(relayed_lsn)} on (none if one transaction did both); copy its "
                "tables again, and restart pgrelay"
            )
        altered = [n for n, it in now.items() if self._found.get(n, it).operations != it.operations]
        self._found = now
        if altered:
            _log.warning(
                "publications were altered to publish other kinds of changes: those that they do not "
                "publish, or did not before, are missing; if they are wanted, publish them, and copy the "
                "tables again",
                publications=sorted(altered),
            )
        await self._warn_of_readded_tables(catalog)

    async def tables(self, catalog: Catalog) -> PublishedTables | None:
        """None if that can't be known now: see `Catalog.published_tables`."""
        published = await catalog.published_tables(self.names)
        if published is None:
            return None
        names = {oid: f"{schema}.{table}" for oid, schema, table in published}
        gone = self._tables - names.keys()
        unpublished = await catalog.existing_tables(gone) if gone else frozenset()
        self._tables = unpublished.union(names)
        return PublishedTables(names, unpublished)

    def _missing(self, present: Mapping[str, PublicationRow]) -> list[str]:
        return [name for name in self.names if name not in present]

    async def _warn_of_readded_tables(self, catalog: Catalog) -> None:
        """Of tables that were taken out and put back: all that shows is that their entries are other ones."""
        before, self._entries = self._entries, await publication_entries.entries(catalog, self.names)
        back = [
            name
            for what, (name, oids) in self._entries.items()
            if what in before and not oids & before[what][1]
        ]
        if back:
            _log.warning(
                "tables were taken out of the publication and put back: rows written in between are missing "
                "(none if one statement did both); if there were any, copy the tables again",
                tables=sorted(back)[:MAX_NAMED],
                count=len(back),
            )

    async def _warn_of_possible_changes(self, catalog: Catalog) -> None:
        """Whether there were any can't be known for certain: see `changed_publications`."""
        slot = self._config.slot
        if changed := await publication_entries.changed_publications(catalog, self.names, slot):
            _log.warning(
                "publications may have been created, renamed or altered since the slot's position: then rows "
                "that they did not publish before are missing; if there were any, copy the tables again",
                publications=changed,
            )
        if put_in := await publication_entries.new_entries(catalog, self.names, slot):
            _log.warning(
                "tables may have been put into the publication since the slot's position: then rows written "
                "while they were not in it are missing; if there were any, copy the tables again",
                tables=put_in[:MAX_NAMED],
                count=len(put_in),
            )


async def warn_of_refused_changes(catalog: Catalog, created: str) -> None:
    """Once others can see the publication, it is the applications' writes that fail."""
    tables = await catalog.published_tables([created]) or ()
    if unidentified := await catalog.without_replica_identity([oid for oid, _, _ in tables]):
        _log.warning(
            "Postgres refuses UPDATE and DELETE of tables without replica identity while they are published",
            tables=unidentified,
            cure=f"ALTER TABLE {unidentified[0]} REPLICA IDENTITY FULL, for each of them; or, to publish "
            f"only some tables, DROP PUBLICATION {created} and list them in source.tables",
        )
