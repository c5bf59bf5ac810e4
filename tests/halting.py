"""Stop a process that is not our child, and check whether a process is stopped."""

import os
import signal
import subprocess
from pathlib import Path

from tests.integration.waiting import wait_until


def halt(pid: int) -> None:
    """Send SIGSTOP, and wait until every thread of the process has stopped; the signal does not wait."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: halted(pid), f"process {pid} to stop")


def halted(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():  # on macOS
        listed = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True)
        return listed.stdout.startswith("T")
    try:
        states = [stat.read_text().rpartition(")")[2].split()[0] for stat in threads.glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
        return False
    return set(states) == {"T"}
