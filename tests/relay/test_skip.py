"""`pgrelay skip` without Postgres: it waits, and stops when asked to, without claiming success."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgrelay.errors import Interrupted
from pgrelay.relay.session import Session
from pgrelay.relay.skip import SkipGoal, StopRequests

INTERRUPTED = 130
NOBODY = 1  # a port on which no server ever listens
GIVEN_UP_S = 300  # when a connection attempt is


@contextmanager
def skipping(port: int, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    path = folder / "relay.yaml"
    dsn = f"host=127.0.0.1 port={port} connect_timeout={GIVEN_UP_S}"
    path.write_text(f"source: {{dsn: '{dsn}'}}\nsink: {{kafka: {{bootstrap.servers: '127.0.0.1:1'}}}}\n")
    command = [sys.executable, "-m", "pgrelay", "skip", "--config", str(path), "--lsn", "0/1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_skip_that_waits_for_postgres_stops_when_asked(number: signal.Signals, tmp_path: Path) -> None:
    with skipping(NOBODY, tmp_path) as process:
        assert process.stderr is not None
        assert any("waiting, will go on by itself" in line for line in process.stderr)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert err.endswith(
        "pgrelay: stopped as asked, before it was certain that the transaction is left out; "
        "run the command again\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_skip_stops_at_once_if_postgres_hangs(number: signal.Signals, tmp_path: Path) -> None:
    """It does not wait until the connection attempt is given up."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        skipping(silent.getsockname()[1], tmp_path) as process,
    ):
        connection, _ = silent.accept()
        with connection:
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert err == "pgrelay: stopped as asked; nothing was left out\n"


async def test_a_stop_does_not_wait_for_a_silent_postgres() -> None:
    """When cancelled during a query, psycopg waits for the server twice."""
    requests, asked = StopRequests(), asyncio.Event()

    async def query() -> None:
        asked.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(3600)

    ending = asyncio.create_task(requests.run_until_stop(query()))
    await asyncio.wait_for(asked.wait(), 60)
    requests.stop()
    done, _ = await asyncio.wait([ending], timeout=60)
    assert done, "it does not stop"
    with pytest.raises(Interrupted):
        await ending


def test_a_skip_ends_only_when_postgres_was_told() -> None:
    """Kafka may take its time to keep the position, before which nothing is confirmed."""
    passing = SkipGoal(0x800, message=False)
    session: Any = SimpleNamespace(
        ledger=SimpleNamespace(flush_lsn=0x700),
        server_poll=SimpleNamespace(wal_end=0x900),
        encoder=SimpleNamespace(skipped_transaction=None),
        confirmations=SimpleNamespace(confirmed_lsn=0x700),
    )
    passing.on_turn(cast(Session, session))
    session.encoder.skipped_transaction = (2, 0x808)
    session.ledger.flush_lsn = 0x808
    passing.on_turn(cast(Session, session))
    assert not passing.reached
    session.confirmations.confirmed_lsn = 0x808
    passing.on_turn(cast(Session, session))
    assert (passing.reached, passing.changes, passing.begin) == (True, 2, 0x700)
