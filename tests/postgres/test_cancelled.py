"""A cancellation during the first query closes the connection. There is no server."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import AsyncConnection

from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.connection import connect
from pgrelay.postgres.source import Source


class Unanswered:
    """A connection whose queries are not answered."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.closed = False
        self.pgconn = SimpleNamespace(socket=-1)

    async def execute(self, *_: object) -> None:
        self.asked.set()
        await asyncio.sleep(3600)

    async def close(self) -> None:
        self.closed = True


class Asking(Source):
    """Sends its first query as the others do."""

    async def _execute(self, command: str) -> Any:
        await self._connection.execute(command.encode())


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Unanswered:
    connection = Unanswered()

    async def made(*_: object, **__: object) -> Unanswered:
        return connection

    monkeypatch.setattr(AsyncConnection, "connect", made)
    for module in ("catalog", "source"):
        monkeypatch.setattr(f"pgrelay.postgres.{module}.connect", made)
    return connection


@pytest.mark.parametrize(
    "begin",
    [lambda: connect(""), lambda: Catalog("").__aenter__(), lambda: Asking("").__aenter__()],
    ids=["connect", "Catalog", "Source"],
)
async def test_a_cancellation_leaves_no_connection_open(begin: Any, connection: Unanswered) -> None:
    task = asyncio.ensure_future(begin())
    await asyncio.wait_for(connection.asked.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.closed
