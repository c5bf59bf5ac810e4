"""A TCP proxy whose network a test spoils: latency, answers held back, resets, refusals.

It runs in a thread with an event loop of its own, so that blocking and asyncio tests can both use it.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

from pgrelay.embedded.ports import free_port

_HOST = "127.0.0.1"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # struct linger: on, for no time


class Proxy:
    """Forwards 127.0.0.1:`port` to 127.0.0.1:`target` while its block lasts.

    `latency` is the time in seconds before any chunk is passed on, either way. What is held is passed on
    after `release`, unless its connection has ended by then: so an answer gets lost.

    `cut_after` is how many bytes of the next answer arrive; its connection ends there, which sets it to None.
    """

    def __init__(self, target: int, port: int | None = None) -> None:
        self.target = target
        self.port = port or free_port()
        self.latency = 0.0
        self.cut_after: int | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        running = threading.Event()
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

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._links)

    def hold_requests(self) -> None:
        """Nothing that clients send arrives after this has returned."""
        self._do(self._hold(self._requests))

    def hold_replies(self) -> None:
        """Nothing that the target sends arrives after this has returned."""
        self._do(self._hold(self._replies))

    def reset(self) -> None:
        """Resets every connection; new ones are welcome."""
        self._do(self._reset())

    def refuse(self) -> None:
        """Resets every connection and refuses new ones."""
        self._do(self._refuse())

    def release(self) -> None:
        """A healthy network again."""
        self.latency = 0.0
        self.cut_after = None
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
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, _HOST, self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._reset()

    async def _reset(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        link = asyncio.create_task(self._link(from_client, to_client))
        self._links.add(link)
        link.add_done_callback(partial(self._ended, to_client))

    def _ended(self, to_client: asyncio.StreamWriter, link: asyncio.Task[None]) -> None:
        self._links.discard(link)
        if not to_client.is_closing():  # it was cancelled before its first step
            _reset_connection(to_client)

    async def _link(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        ends, pumps = [to_client], list[asyncio.Task[None]]()
        try:
            from_target, to_target = await asyncio.open_connection(_HOST, self.target)
            ends.append(to_target)
            pumps.append(asyncio.create_task(self._pump(from_client, to_target, self._requests)))
            pumps.append(asyncio.create_task(self._pump(from_target, to_client, self._replies)))
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except ConnectionRefusedError:
            _reset_connection(to_client)
        except asyncio.CancelledError:
            for end in ends:
                _reset_connection(end)
            raise
        finally:
            for pump in pumps:
                pump.cancel()
            for end in ends:
                end.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError):  # an end of the connection like any other
            while chunk := await source.read(65536):
                await asyncio.sleep(self.latency)
                await gate.wait()
                if gate is self._replies and self.cut_after is not None:
                    sink.write(chunk[: self.cut_after])
                    self.cut_after = None
                    return
                sink.write(chunk)
                await sink.drain()


def _reset_connection(end: asyncio.StreamWriter) -> None:
    end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    end.transport.abort()
