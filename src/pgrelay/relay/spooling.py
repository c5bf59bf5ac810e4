"""Opens what is kept on disk for a slot, once its stream has begun."""

import asyncio
import time
from pathlib import Path

from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.postgres.source import Source


async def open_spool(
    directory: Path, source: Source, status_interval_s: float, first_xid: int | None = None
) -> tuple[Spool, PreparedStore]:
    """Open the slot's spool. Who has the slot owns its directory, so what an earlier run left is removed.

    A slot of the same name on another server of the cluster is another slot; it can't share this directory.
    `first_xid`: as for `PreparedStore`. Raises SpoolError, GapError or SourceUnavailable.
    """
    spool = Spool(directory)
    spool.open()
    try:
        spool.remove_stale()
        prepared = PreparedStore(spool, first_xid)
        due = time.monotonic() + status_interval_s
        for _ in prepared.load():
            # There may be very many, and the server drops a silent client.
            if time.monotonic() >= due:
                source.send_status(0, 0)
                due = time.monotonic() + status_interval_s
            await asyncio.sleep(0)
    except BaseException:
        # Nobody else would close it.
        spool.close()
        raise
    return spool, prepared
