"""Signals to a process whose event loop is running, or has ended. There is no server."""

import subprocess
import sys

# It gets a signal while its loop runs, and two more once the loop is closed.
PROGRAM = """
import asyncio, signal
from pgrelay.relay.process import stop_on_signals

async def run():
    stop = asyncio.Event()
    stop_on_signals(stop.set)
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(stop.wait(), 10)

asyncio.run(run())
signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGINT)
print("decided")
"""


def test_signals_after_the_end_do_not_change_the_exit_code() -> None:
    """An impatient supervisor repeats its signal, and by default that would kill the process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "decided\n", "")
