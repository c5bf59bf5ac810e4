"""Whether a transaction that the stream has brought is visible to queries.

The server sends a transaction as soon as its commit is in the WAL. Queries see it only once its backend has
ended it: a moment later or, with synchronous standbys, once they have it too. Source:
PostgreSQL, xact.c, RecordTransactionCommit; manual, "Transaction ID and Snapshot Information Functions".
"""

import asyncio
import re
from typing import Final, Self

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from pgrelay.wire.xid import xids_ahead

_TIMEOUT_S: Final = 5.0
# The same if the commit may be waiting for us, as for one of the standbys.
_OWN_STANDBY_TIMEOUT_S: Final = 1.0
_POLL_S: Final = 0.005
_POLL_MAX_S: Final = 0.1

_NAME: Final = re.compile(r'"((?:[^"]|"")+)"|([^\s,()"]+)')


class Snapshot:
    """What queries see: no transaction from `xmax` on, and none of `running`. All are 64-bit ids."""

    def __init__(self, xmax: int, running: frozenset[int]) -> None:
        self._xmax = xmax
        self._running = running

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse what the server prints: `xmin:xmax:running,running`."""
        _, xmax, running = text.split(":")
        return cls(int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def is_visible(self, xid: int | None) -> bool:
        """Whether queries see the transaction with this 32-bit id; true for None, which is no transaction."""
        if xid is None:
            return True
        return xids_ahead(xid, self._xmax) is None and all(
            xids_ahead(xid, other) != 0 for other in self._running
        )


def names_application(standbys: str, application: str) -> bool:
    """Whether synchronous_standby_names, as the server has it, names an application or all of them."""
    named = {(quoted.replace('""', '"') or plain).lower() for quoted, plain in _NAME.findall(standbys)}
    return bool(named & {"*", application.lower()})


async def snapshot(catalog: Catalog) -> Snapshot:
    """What queries see now."""
    return Snapshot.parse(await catalog.snapshot())


async def wait_visible(catalog: Catalog, xid: int | None) -> None:
    """Wait until queries see the transaction, but not for long if its commit may be waiting for us.

    Raises SourceUnavailable if it takes too long.
    """
    if (await snapshot(catalog)).is_visible(xid):
        return
    # Asked only now, since there is hardly ever anything to wait for.
    ours = names_application(
        await catalog.setting("synchronous_standby_names"), await catalog.setting("application_name")
    )
    timeout_s, pause_s = _OWN_STANDBY_TIMEOUT_S if ours else _TIMEOUT_S, _POLL_S
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not (await snapshot(catalog)).is_visible(xid):
        if asyncio.get_running_loop().time() >= deadline:
            if ours:
                return
            raise SourceUnavailable(
                f"transaction {xid} is in the WAL, but queries don't see it after {_TIMEOUT_S:g} s: it "
                "waits for a synchronous standby, and until then its tables' types or keys can't be known; "
                "start the standby, or correct synchronous_standby_names"
            )
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_MAX_S)
