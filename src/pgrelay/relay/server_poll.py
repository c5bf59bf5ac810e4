"""Polls the server every few seconds, beside the stream, for what the stream does not say.

That is: how far behind the slot is, which tables are published, whether some were renamed, and which prepared
transactions the server can no longer ask for.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from pgrelay.assembly.prepared import PreparedStore
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.publications import Publications, PublishedTables
from pgrelay.relay.renames import Renames
from pgrelay.relay.tasks import cancel_and_wait

# If a poll takes long, as with thousands of tables, the pause after it is this many times as long. But only
# some seconds: the poll may just have been waiting, and what goes unnoticed meanwhile may be missing rows.
_EVERY_S: Final = 2.0
_PAUSE_FACTOR: Final = 10
_MAX_PAUSE_S: Final = 10.0

# Prepared transactions that are deleted in one turn.
_PURGE_BATCH: Final = 10


class ServerPoll:
    """`wal` is what the server last said about its WAL and the slot; `published` is the tables whose rows it
    then sent. Both are None before the first answer.
    """

    def __init__(
        self,
        catalog: Catalog,
        slot: str,
        publications: Publications,
        prepared: PreparedStore,
        renames: Renames,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called at the end of each poll."""
        self.wal: SlotWal | None = None
        self.published: PublishedTables | None = None
        self._catalog = catalog
        self._slot = slot
        self._publications = publications
        self._prepared = prepared
        self._renames = renames
        self._wake = wake
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0
        self._due = 0.0

    @property
    def wal_end(self) -> int:
        """Where the server's WAL ended when last asked; 0 before the first answer."""
        return 0 if self.wal is None else self.wal.wal_end

    def turn(self, relayed_lsn: int) -> None:
        """Raise what the last poll has found wrong, if anything, and begin the next poll if it is due.

        `relayed_lsn`: the LSN up to which everything is in Kafka.
        """
        if self._task is not None and self._task.done():
            self._task.result()
            self._task = None
            now = time.monotonic()
            self._due = now + min(max(_EVERY_S, (now - self._began) * _PAUSE_FACTOR), _MAX_PAUSE_S)
        self._renames.check(relayed_lsn)
        if self._task is None and time.monotonic() >= self._due:
            self._began = time.monotonic()
            self._task = asyncio.create_task(self._poll(relayed_lsn))
            self._task.add_done_callback(lambda _: self._wake())

    def due_in_s(self) -> float:
        """Seconds until the next poll begins; inf while one is under way."""
        return float("inf") if self._task is not None else self._due - time.monotonic()

    async def close(self) -> None:
        await cancel_and_wait(self._task)

    async def _poll(self, relayed_lsn: int) -> None:
        self.wal = await self._catalog.slot_wal(self._slot)
        await self._publications.check(self._catalog, relayed_lsn)
        self.published = await self._publications.tables(self._catalog) or self.published
        await self._renames.look_up(self._catalog)
        await self._purge_prepared(self.wal.restart_lsn or 0)

    async def _purge_prepared(self, restart_lsn: int) -> None:
        """Delete prepared transactions whose commit the server can't send again."""
        while self._prepared.purge(restart_lsn, _PURGE_BATCH):  # noqa: ASYNC110 - each round does work
            # Let the stream go on.
            await asyncio.sleep(0)
