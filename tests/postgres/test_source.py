"""How libpq is driven. There is no server, and the socket is silent."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.source import Source
from tests.test_handover import KEEPALIVE, ROW, Libpq


class Held(Libpq):
    """With TLS, decrypted bytes may wait that the socket no longer announces; its send queue may be full."""

    def __init__(self, *looks: list[bytes | None]) -> None:
        super().__init__([], *looks)
        self.unsent = 2

    def put_copy_end(self) -> int:
        return 1

    def flush(self) -> int:
        self.unsent -= 1
        return self.unsent

    def send_query(self, query: bytes) -> None: ...

    def is_busy(self) -> bool:
        return bool(self._looks)

    def get_result(self) -> Any:
        return Answer()


class Answer:
    status = ExecStatus.COPY_BOTH


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A socket to which nobody writes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


class Driven(Source):
    """A source with the given libpq."""

    def __init__(self, libpq: Any, silent: socket.socket) -> None:
        super().__init__("")
        self._pgconn = libpq
        self._socket = silent.fileno()


async def test_the_end_of_a_stream_buffered_by_tls_is_not_waited_for(silent: socket.socket) -> None:
    libpq = Held([ROW], [ROW, KEEPALIVE, ROW], [ROW, None])
    async with asyncio.timeout(60):
        await Driven(libpq, silent)._end_copy()
    assert libpq.unsent == 0


async def test_an_answer_buffered_by_tls_is_not_waited_for(silent: socket.socket) -> None:
    async with asyncio.timeout(60):
        await Driven(Held([ROW], [ROW], [ROW]), silent)._execute("TIMELINE_HISTORY 2")


async def test_waiting_on_a_connection_that_libpq_has_closed_is_a_lost_server(silent: socket.socket) -> None:
    """It closes the socket when the server cuts the connection, and still gives out what it holds."""
    source = Driven(Held([ROW]), silent)
    silent.close()
    with pytest.raises(SourceUnavailable, match="Postgres cut the connection"):
        await source.wait_readable(10)


@pytest.mark.parametrize("text", ["out of memory", "cannot allocate memory for input buffer"])
async def test_too_little_memory_for_a_message_is_no_lost_server(text: str, silent: socket.socket) -> None:
    class Poor(Held):
        def get_copy_data(self, async_: int) -> Any:
            raise psycopg.OperationalError(f"receiving copy data failed: {text}")

    with pytest.raises(SourceUnavailable, match=f"^too little memory .*{text}; give the process more$"):
        Driven(Poor([ROW]), silent).read(10, 1000)
