"""One server process: wait until it answers, stop it reliably, and quote its log if it fails."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pgrelay.embedded.account import Account, spawn_options
from pgrelay.errors import PgrelayError

StrPath = str | os.PathLike[str]

_TAIL_LINES = 20
_ABORT_TIMEOUT = 10.0  # seconds


class ServerFailed(PgrelayError):
    """An embedded server did not start, answer or stop in time. Carries the end of its log."""


def run_tool(command: Sequence[StrPath], *, cwd: Path, account: Account | None = None) -> None:
    """Run a command to its end. Raises ServerFailed with its output unless it succeeds."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        start_new_session=True,
        **spawn_options(account),
    )
    with process:
        try:
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        raise ServerFailed(f"{Path(command[0]).name} failed with exit code {process.returncode}:\n{output}")


def halt(process: subprocess.Popen[bytes]) -> bool:
    """Send SIGSTOP to a child process and wait until all its threads have stopped; False if it has ended."""
    process.send_signal(signal.SIGSTOP)
    if process.returncode is not None:
        return False
    # After the signal, threads on other cores run on for a moment, and a server may still answer.
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        process.returncode = os.waitstatus_to_exitcode(status)
    return os.WIFSTOPPED(status)


def log_tail(log: Path) -> str:
    """The last lines of a log, or a note that there is none."""
    if not log.exists():
        return f"({log} does not exist)"
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or f"({log} is empty)"


class Daemon:
    """A server process in its own session: Ctrl-C in the terminal reaches us and not the server."""

    def __init__(
        self,
        name: str,
        log: Path,
        account: Account | None = None,
        abort: signal.Signals = signal.SIGKILL,
    ) -> None:
        """`abort` is the signal that ends the server at once, with all processes that it has started."""
        self.name = name
        self.log = log
        self._account = account
        self._abort = abort
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative if a signal killed the process; None while it runs."""
        return self._process.poll() if self._process is not None else None

    def start(
        self, command: Sequence[StrPath], *, ready: Callable[[], bool], timeout: float, cwd: Path
    ) -> None:
        """Start the command, append its output to the log, and return once `ready` returns True.

        Raises ServerFailed if the process ends first or `timeout` seconds pass; then it is not running.
        """
        if self.running:
            raise ServerFailed(f"{self.name} is running already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                start_new_session=True,
                **spawn_options(self._account),
            )
        try:
            self._await_ready(self._process, ready, timeout)
        except BaseException:
            self._process.send_signal(self._abort)
            if not self._ended_within(self._process, _ABORT_TIMEOUT):
                self.kill()
            raise

    def _await_ready(
        self, process: subprocess.Popen[bytes], ready: Callable[[], bool], timeout: float
    ) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            if self._ended_within(process, 0.02):
                raise self._failure(f"did not start: exit code {process.returncode}")
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer within {timeout:g} s")

    def stop(self, with_signal: signal.Signals, *, timeout: float) -> None:
        """Send the signal and wait for the end. Raises ServerFailed after `timeout` seconds."""
        if self._process is None or not self.running:
            return
        self._process.send_signal(with_signal)
        if not self._ended_within(self._process, timeout):
            raise self._failure(f"did not stop within {timeout:g} s of {with_signal.name}")

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Stop all threads of the process, until `resume`. Raises ServerFailed if it is not running."""
        if self._process is None or not self.running or not halt(self._process):
            raise ServerFailed(f"{self.name} is not running")

    def resume(self) -> None:
        """Let a paused process continue, if there is one."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    @staticmethod
    def _ended_within(process: subprocess.Popen[bytes], timeout: float) -> bool:
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _failure(self, what: str) -> ServerFailed:
        return ServerFailed(f"{self.name} {what}; the end of its log:\n{log_tail(self.log)}")
