"""`pgrelay skip` while Postgres is not there: it waits, and stops when it is asked to."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgrelay.embedded.ports import free_port


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_as_asked(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "relay.yaml"
    dsn = f"host=127.0.0.1 port={free_port()}"
    path.write_text(f"source: {{dsn: '{dsn}'}}\nsink: {{kafka: {{bootstrap.servers: '127.0.0.1:1'}}}}\n")
    command = [sys.executable, "-m", "pgrelay", "skip", "--config", str(path), "--lsn", "0/1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        assert any("waiting, will go on by itself" in line for line in process.stderr)
        process.send_signal(number)
        told, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    assert told == "stopped as asked, and it is not sure that the transaction is left out; run this again\n"
