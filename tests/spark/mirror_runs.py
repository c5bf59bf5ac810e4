"""A mirror as a process, run again and again, so that it can be killed with the Java below it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.integration.waiting import wait_until

_ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 240.0  # seconds; on an idle machine a session starts in ten


class MirrorRuns:
    """Runs of a module of the tests, one after the other: `python -m MODULE HOW WAREHOUSE ARGUMENTS...`."""

    def __init__(self, module: str, warehouse: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module]
        self._arguments = [str(warehouse), *arguments]
        self._log = warehouse / "mirror.log"

    def kill_when(self, condition: Callable[[], bool], what: str) -> None:
        """Run it, and kill it as soon as this is true."""
        process = self._start("for ever")

        def far_enough() -> bool:
            assert process.poll() is None, self._said()
            return condition()

        try:
            wait_until(far_enough, what, _PATIENCE)
        finally:
            _kill(process)

    def die_after(self, seconds: int) -> None:
        """Run it, and let it kill itself when it has mirrored for that long."""
        assert self._ended(str(seconds)) == -signal.SIGKILL, self._said()

    def finish(self) -> None:
        """Run it up to the end of the topics."""
        assert self._ended("once") == 0, self._said()

    def _ended(self, how: str) -> int:
        process = self._start(how)
        try:
            return process.wait(_PATIENCE)
        finally:
            _kill(process)

    def _start(self, how: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._command, how, *self._arguments],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _said(self) -> str:
        return self._log.read_text()[-4000:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill all of it: Python, and the Java below it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
