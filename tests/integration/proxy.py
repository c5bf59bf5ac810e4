"""A TCP proxy through which a test disturbs the network: latency, held back answers, resets, refusals.

It runs in a thread with its own event loop, so that blocking and asyncio tests can both use it.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

from pgrelay.embedded.ports import reserved_ports

_HOST = "127.0.0.1"
_NO_LINGER = struct.pack("ii", 1, 0)  # struct linger: on, for no time


class Proxy:
    """Forwards 127.0.0.1:`port`, by default a free one, to 127.0.0.1:`target` while its block lasts.

    `latency` is the delay in seconds of each chunk, in both directions. Held bytes are forwarded after
    `release`, unless their connection has ended by then: that is how an answer gets lost.

    `cut_after` is how many bytes of the next answer arrive. The connection ends there, and it becomes None.

    `loses_replies_to`: all that the target sends is lost, if the first that the client sent has these bytes.

    `intercept` gets what clients send, and returns what the target gets of it, and what the client gets at
    once.
    """

    port: int

    def __init__(self, target: int, port: int | None = None) -> None:
        self.target = target
        self._port = port
        self._held = contextlib.ExitStack()
        self.latency = 0.0
        self.cut_after: int | None = None
        self.loses_replies_to: bytes | None = None
        self.intercept: Callable[[bytes], tuple[bytes, bytes]] | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        running = threading.Event()
        self.port = self._port or self._held.enter_context(reserved_ports(1))[0]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(running)), name="proxy")
        self._thread.start()
        running.wait()
        self.release()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._held.close()

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._links)

    def hold_requests(self) -> None:
        """Hold what clients send: nothing of it arrives after this has returned."""
        self._do(self._hold(self._requests))

    def hold_replies(self) -> None:
        """Hold what the target sends: nothing of it arrives after this has returned."""
        self._do(self._hold(self._replies))

    def reset(self) -> None:
        """Reset every connection; accept new ones."""
        self._do(self._reset())

    def refuse(self) -> None:
        """Reset every connection and refuse new ones."""
        self._do(self._refuse())

    def release(self) -> None:
        """Return to a healthy network."""
        self.latency = 0.0
        self.cut_after = self.loses_replies_to = self.intercept = None
        self._do(self._release())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _run(self, running: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped, self._requests, self._replies = asyncio.Event(), asyncio.Event(), asyncio.Event()
        running.set()
        await self._stopped.wait()

    async def _hold(self, gate: asyncio.Event) -> None:
        gate.clear()

    async def _release(self) -> None:
        self._requests.set()
        self._replies.set()
        if self._listener is None:
            self._listener = socket.create_server((_HOST, self.port), backlog=100)
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        await self._reset()

    async def _reset(self) -> None:
        links = list(self._links)
        await asyncio.sleep(0)  # let each take its first step: a task cancelled before that runs nothing
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        # Not asyncio's server: it shows an accepted connection only some steps later, and leaves it open if
        # the loop ends before that.
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):  # the client has gone
            client, _ = listener.accept()
            link = asyncio.create_task(self._link(client))
            self._links.add(link)
            link.add_done_callback(self._links.discard)

    async def _link(self, client: socket.socket) -> None:
        ends = list[asyncio.StreamWriter]()
        try:
            client.setblocking(False)
            from_client, to_client = await asyncio.open_connection(sock=client)
            ends.append(to_client)
            from_target, to_target = await asyncio.open_connection(_HOST, self.target)
            ends.append(to_target)
            first = bytearray()
            request = partial(self._request, first, to_target, to_client)
            reply = partial(self._reply, first, to_client)
            requests = self._pump(from_client, self._requests, request)
            replies = self._pump(from_target, self._replies, reply)
            await _first_of(asyncio.create_task(requests), asyncio.create_task(replies))
            await _close(ends)
        except (ConnectionRefusedError, asyncio.CancelledError) as reason:
            _reset_on_close(client)
            for end in ends:
                _reset_on_close(end.get_extra_info("socket"))
                end.transport.abort()
            if isinstance(reason, asyncio.CancelledError):
                raise

    async def _pump(
        self,
        source: asyncio.StreamReader,
        gate: asyncio.Event,
        pass_on: Callable[[bytes], Coroutine[Any, Any, bool]],
    ) -> None:
        """Delay and hold what arrives, and pass it on, until `pass_on` returns false."""
        with contextlib.suppress(ConnectionError):  # this ends the connection too
            while chunk := await source.read(65536):
                await asyncio.sleep(self.latency)
                await gate.wait()
                if not await pass_on(chunk):
                    return

    async def _request(
        self, first: bytearray, target: asyncio.StreamWriter, client: asyncio.StreamWriter, chunk: bytes
    ) -> bool:
        """Pass on a request. `first` gets it if it is the connection's first."""
        first[:] = first or chunk
        if self.intercept is not None:
            chunk, answer = self.intercept(chunk)
            client.write(answer)
        target.write(chunk)
        await target.drain()
        return True

    async def _reply(self, first: bytearray, client: asyncio.StreamWriter, chunk: bytes) -> bool:
        """Pass on a reply, cut it short, or lose it, as `first`, the connection's first request, is one."""
        if self.loses_replies_to is not None and self.loses_replies_to in first:
            return True
        if self.cut_after is not None:
            client.write(chunk[: self.cut_after])
            self.cut_after = None
            return False
        client.write(chunk)
        await client.drain()
        return True


async def _first_of(*pumps: asyncio.Task[None]) -> None:
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()


async def _close(ends: list[asyncio.StreamWriter]) -> None:
    """Return when everything written has been sent; wait for a client that reads nothing until a reset."""
    for end in ends:
        end.close()
    for end in ends:
        with contextlib.suppress(ConnectionError):
            await end.wait_closed()


def _reset_on_close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the peer has closed it already
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
