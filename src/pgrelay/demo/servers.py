"""Postgres and Kafka, started in parallel."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from pgrelay.figures import counted, size

# Larger transactions are sent before they commit; the default of 64MB takes longer to fill.
_SETTINGS: Final = {"logical_decoding_work_mem": "64kB"}

_DRAW_EVERY_S: Final = 0.1


class Stopped(Exception):
    """The demo was asked to end before it began."""


class Downloads:
    """How much of the jars has been received. The download threads call it; it ends them if `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._received: dict[str, int] = {}

    def __call__(self, name: str, received: int) -> None:
        if self._stop.is_set():
            raise Stopped
        with self._lock:
            self._received[name] = received

    def names(self) -> list[str]:
        """The jars whose download has begun, in that order."""
        with self._lock:
            return list(self._received)

    def __str__(self) -> str:
        with self._lock:
            return f"{size(sum(self._received.values()))} in {counted(len(self._received), 'jar')}"


class Servers:
    """Both servers. With a folder, their data stay there; with `kept`, the servers run on after the block."""

    def __init__(self, folder: Path | None, stop: threading.Event) -> None:
        self.downloads = Downloads(stop)
        self.postgres = Postgres(folder and folder / "postgres", settings=_SETTINGS)
        self.kafka = Kafka(folder and folder / "kafka", progress=self.downloads)
        self.kept = False
        self._stop = stop

    @contextmanager
    def running(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Start both servers for the block; `on_wait` is called repeatedly until both answer.

        Raises Stopped if `stop` is set by then.
        """
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(2))
            starts: list[Future[Any]] = []
            for server in (self.postgres, self.kafka):
                starts.append(pool.submit(server.__enter__))
                stack.callback(self._stop_server, server, starts[-1])
            while wait(starts, _DRAW_EVERY_S).not_done:
                on_wait()
            for start in starts:
                start.result()
            if self._stop.is_set():
                raise Stopped
            yield

    def _stop_server(self, server: Postgres | Kafka, start: Future[Any]) -> None:
        # Wait for the start: it may still be running when something else has failed.
        if start.exception() is None and not self.kept:
            server.__exit__(None, None, None)
