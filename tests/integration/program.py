"""The program, started as its script starts it, but without the imports: those take half a second of CPU.

Each worker has one process that has imported everything, and forks for each run of the program. Signals reach
it as they reach the script, and it ends as an interpreter ends, which a child of multiprocessing does not.
"""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

ROOT: Final = Path(__file__).parents[2]

# The modules that the commands import when they run.
_IMPORTED: Final = (
    *("pgrelay.cli", "pgrelay.relay", "pgrelay.relay.skip", "pgrelay.relay.reset", "pgrelay.status.client"),
    *("pgrelay.check", "pgrelay.plan", "confluent_kafka.schema_registry"),
)
_LARGEST: Final = 1 << 17  # bytes of a request
_WORD: Final = 8  # bytes of a process's id, and of an exit code


def run(arguments: Sequence[str | os.PathLike[str]], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, like subprocess.run."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        program = Program(arguments, output, errors)
        try:
            code = program.wait(timeout)
        finally:
            program.kill()
            program.wait()
        for each in (output, errors):
            each.seek(0)
        told = [each.read().decode() for each in (output, errors)]
    return subprocess.CompletedProcess(["pgrelay", *map(str, arguments)], code, *told)


class Program:
    """One run of the program, with the part of subprocess.Popen's interface that tests need."""

    def __init__(
        self, arguments: Sequence[str | os.PathLike[str]], output: IO[bytes], errors: IO[bytes] | None = None
    ) -> None:
        """Start it; stdout and stderr go to `output`, or stderr to `errors` if that is given."""
        self.returncode: int | None = None
        self._told, tells = socket.socketpair()
        request = {"arguments": [os.fspath(each) for each in arguments], "environment": dict(os.environ)}
        request |= {"folder": os.getcwd()}
        with tells:
            files = [each.fileno() for each in (tells, output, errors or output)]
            socket.send_fds(_forking(), [json.dumps(request).encode()], files)
        self.pid = int.from_bytes(self._listen())

    def poll(self) -> int | None:
        """Its exit code, or the negative number of the signal that killed it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int.from_bytes(self._listen(), signed=True)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("pgrelay", timeout or 0) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; ignore a process that has ended, which its parent may have reaped already."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _listen(self) -> bytes:
        told = self._told.recv(_WORD)
        assert told, "the forking process is gone: see its traceback"
        return told


@cache
def _forking() -> socket.socket:
    """The socket to the forking process, which ends when we do."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        inherited = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(inherited)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[inherited],
            start_new_session=True,
        )

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


def _fork_when_asked(channel: socket.socket) -> bool:
    """Return True in each forked process, which must run the program; False once the requester is gone."""
    running = selectors.DefaultSelector()
    running.register(channel, selectors.EVENT_READ)
    while True:
        for key, _ in running.select():
            if key.data:
                running.unregister(key.fd)
                _tell_end(key.fd, *key.data)
                continue
            request, files, *_ = socket.recv_fds(channel, _LARGEST, 3)
            if not request:
                for pid, _ in (each.data for each in running.get_map().values() if each.data):
                    os.kill(pid, signal.SIGKILL)
                return False
            tells, *outputs = files
            pid = os.fork()
            if pid == 0:
                running.close()
                channel.close()
                _become(outputs, **json.loads(request))
                return True
            for each in outputs:
                os.close(each)
            os.write(tells, pid.to_bytes(_WORD))
            running.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, tells))


def _tell_end(ended: int, pid: int, tells: int) -> None:
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):  # the requester is gone
        os.write(tells, os.waitstatus_to_exitcode(status).to_bytes(_WORD, signed=True))
    os.close(ended)
    os.close(tells)


def _become(outputs: list[int], arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Set up this process as if it had been started with these arguments."""
    for stream, output in enumerate(outputs, start=1):
        os.dup2(output, stream)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["pgrelay", *arguments]


if __name__ == "__main__":
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()  # otherwise garbage collection touches, and so copies, all imported memory in each fork
    if _fork_when_asked(socket.socket(fileno=int(sys.argv[1]))):
        from pgrelay.__main__ import main

        sys.exit(main())
