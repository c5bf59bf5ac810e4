"""The lake beside the shop: the content of its tables, and how long a commit takes to get there."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Final, Self

from pgrelay.demo.change import TOMBSTONE, Change, Row
from pgrelay.demo.screen import Line
from pgrelay.demo.shop import TABLES
from pgrelay.embedded.daemon import ServerFailed, log_tail
from pgrelay.lsn import format_lsn

_POLL_EVERY_S: Final = 0.5
_STOP_TIMEOUT_S: Final = 30.0


class Lake:
    """The mirror's process; while the block runs, a thread of this process polls it.

    `rows` and `lsn` are its last answer, by table; `lags_s` has the time from commit to lake of each change.
    """

    def __init__(self, folder: Path, servers: str, prefix: str) -> None:
        self.rows: dict[str, int] = {}
        self.lsn: dict[str, int] = {}
        self.lags_s: list[float] = []
        self.log = folder / "lake.log"
        self._command = [sys.executable, "-m", "pgrelay.demo.lake_process", servers, prefix]
        self._command += [str(folder / "lake"), *TABLES]
        self._waiting: dict[str, deque[tuple[int, int]]] = {table: deque() for table in TABLES}
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._stopping = threading.Event()
        self._failed = False
        self._shown: dict[str, int] = {}

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
            )
        self._thread = threading.Thread(target=self._poll, name="lake")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if kind is not None:
            self._process.terminate()
        self._thread.join()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # a question that a dead process never read is still buffered
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_TIMEOUT_S)
        with suppress(ProcessLookupError):  # Java takes a while to notice that Python has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def running(self) -> bool:
        return self._process.poll() is None and not self._failed

    @property
    def started(self) -> bool:
        """Whether Spark and the mirror in it have started."""
        return self._started.is_set()

    def expect(self, change: Change) -> None:
        """Expect a change: it is in its topic, so the lake must get it."""
        if change.table in self._waiting and change.op != TOMBSTONE:
            with self._lock:
                self._waiting[change.table].append((change.position[0], change.commit_us))

    def is_caught_up(self) -> bool:
        """Whether the lake has every change seen so far."""
        with self._lock:
            return not any(self._waiting.values())

    def content(self) -> dict[str, list[Row]]:
        """Every row of every table. Raises ServerFailed."""
        self._stopping.set()
        self._thread.join()
        found = self._ask("rows")
        if found is None:
            raise ServerFailed(f"the lake has ended; the end of its log:\n{log_tail(self.log)}")
        return found

    def progress(self, rows: Mapping[str, int]) -> Iterator[Line]:
        """A line with the lake's row counts beside Postgres's, if they have changed since the last call."""
        if self.rows != self._shown:
            self._shown = dict(self.rows)
            yield [
                ("cyan", "  lake "),
                ("", "  ".join(_row_counts(table, self.rows, rows) for table in TABLES)),
            ]

    def lag_summary(self) -> str:
        """A summary of the lag."""
        if not self.lags_s:
            return "nothing is in the lake yet"
        newest = format_lsn(max(self.lsn.values()))
        half = f"{median(self.lags_s):.1f} s from commit to lake, {max(self.lags_s):.1f} s at most"
        return f"{half}; up to LSN {newest}"

    def _poll(self) -> None:
        answer = self._answer()  # the first answer says that it has started
        while answer is not None:
            self._started.set()
            self._update(answer)
            if self._stopping.wait(_POLL_EVERY_S):
                return
            answer = self._ask("progress")
        self._failed = True

    def _update(self, answer: Mapping[str, Any]) -> None:
        now_us = time.time() * 1e6
        self.rows, self.lsn = answer["rows"], {table: int(lsn) for table, lsn in answer["lsn"].items()}
        with self._lock:
            for table, waiting in self._waiting.items():
                while waiting and waiting[0][0] <= self.lsn.get(table, 0):
                    self.lags_s.append((now_us - waiting.popleft()[1]) / 1e6)

    def _ask(self, what: str) -> dict[str, Any] | None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{what}\n".encode())
            self._process.stdin.flush()
        except OSError:
            return None
        return self._answer()

    def _answer(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None


def _row_counts(table: str, lake: Mapping[str, int], postgres: Mapping[str, int]) -> str:
    return f"{table} {lake.get(table, 0):,}/{postgres.get(table, 0):,}"
