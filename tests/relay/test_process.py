"""Signals to a process whose event loop is running, or has ended. There is no server."""

import subprocess
import sys

# It is asked to stop, says so, and takes a while to end, as Python does with our modules.
PROGRAM = """
import asyncio, signal, time
from pgrelay.relay.process import stop_on_signals

class Slow:
    def __del__(self):
        time.sleep(0.5)

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
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "decided\n"
        sent = 0
        while process.poll() is None:
            process.terminate()
            sent += 1
    assert (process.returncode, sent > 1) == (0, True)
