"""Reports published tables that were dropped, renamed or unpublished, which the stream does not say."""

from collections.abc import Mapping
from typing import Final

import structlog

from pgrelay.relay.publications import MAX_NAMED, PublishedTables
from pgrelay.status.troubles import Troubles

_log = structlog.get_logger(__name__)

_LEFT: Final = (
    "tables left the publication",
    "if they should be relayed: ALTER PUBLICATION ... ADD TABLE, then copy them again",
)
_DROPPED: Final = (
    "published tables were dropped",
    "consumers keep their rows, since Postgres sends nothing for a DROP; one that was made anew and has not "
    "joined the publication: ALTER PUBLICATION ... ADD TABLE, then copy it",
)
_RENAMED: Final = (
    "published tables were renamed",
    "they are relayed under the new name: adapt consumers, and what names them in records; if another table "
    "has the old name now, and should be relayed: ALTER PUBLICATION ... ADD TABLE, then copy it",
)


class TableChanges:
    """Logs how the published tables change from call to call."""

    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles
        self._published: Mapping[int, str] | None = None

    def log_changes(self, tables: PublishedTables) -> bool:
        """Log how `tables` differ from those of the last call; returns whether they do."""
        before, now = self._published, tables.names
        if before == now:
            return False
        self._published = now
        if before is None:
            return True
        gone = before.keys() - now.keys()
        self._warn(_LEFT, [before[oid] for oid in gone & tables.unpublished])
        self._warn(_DROPPED, [before[oid] for oid in gone - tables.unpublished])
        stayed = before.keys() & now.keys()
        self._warn(_RENAMED, [f"{before[oid]} to {now[oid]}" for oid in stayed if before[oid] != now[oid]])
        if joined := [now[oid] for oid in now.keys() - before.keys()]:
            _log.info("tables joined the publication", tables=sorted(joined)[:MAX_NAMED], count=len(joined))
        return True

    def _warn(self, event: tuple[str, str], tables: list[str]) -> None:
        """`event`: what happened to these, and the cure."""
        if tables:
            (what, cure), named = event, sorted(tables)[:MAX_NAMED]
            _log.warning(what, tables=named, count=len(tables), cure=cure)
            self._troubles.record(f"{what}: {', '.join(named)}", cure)
