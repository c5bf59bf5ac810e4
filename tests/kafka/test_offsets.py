"""The position is read in a thread, which a stop does not wait for. No broker is there."""

import asyncio
import threading
import time

import pytest

from pgrelay.config import SinkConfig
from pgrelay.kafka.offsets import Identity, Offsets

AT_ONCE = 5.0  # seconds; Kafka may be silent for ten


async def test_a_read_that_nobody_waits_for_any_more_ends_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the process would not end before it."""
    asked = threading.Event()

    class Unanswered:
        """A consumer that hears nothing of Kafka."""

        def __init__(self, *_: object, **__: object) -> None: ...
        def assign(self, _: object) -> None: ...
        def close(self) -> None: ...

        def poll(self, timeout: float) -> None:
            asked.set()
            time.sleep(timeout)

    monkeypatch.setattr("pgrelay.kafka.offsets.Consumer", Unanswered)
    config = SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})
    reading = asyncio.create_task(Offsets(config, "app.offsets", Identity("7", "db", "s")).read())
    await asyncio.to_thread(asked.wait, 10)
    reading.cancel()
    began = time.monotonic()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert time.monotonic() - began < AT_ONCE
