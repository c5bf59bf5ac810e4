"""Signals to a process whose event loop is running, or has ended. There is no server."""

import subprocess
import sys

# It is asked to stop, says so, and ends only once its stdin does. Python too takes a while to end, with our
# modules.
PROGRAM = """
import asyncio, os, signal
from pgrelay.relay.process import stop_on_signals

class Slow:
    def __del__(self):
        os.write(1, b"ending\\n")
        os.read(0, 1)

async def run():
    stop = asyncio.Event()
    with stop_on_signals(stop.set):
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 10)

slow = Slow()
asyncio.run(run())
print("decided", flush=True)
"""


def test_signals_after_the_end_do_not_change_the_exit_code() -> None:
    """An impatient supervisor repeats its signal, and by default that would kill the process."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for expected in ("decided\n", "ending\n"):
            assert process.stdout.readline() == expected
            process.terminate()
        process.stdin.close()
        while process.poll() is None:
            process.terminate()
    assert process.returncode == 0
