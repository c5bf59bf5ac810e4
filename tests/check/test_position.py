"""What a check of the position leaves behind. There is no server."""

import asyncio
from typing import Any, Self, cast

import pytest

from pgrelay.check.position import position_findings
from pgrelay.config import Config
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from pgrelay.relay.server import Server


async def test_a_check_cancelled_while_kafka_is_silent_closes_its_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that is asked to stop cancels its check like this."""
    connecting, closed = asyncio.Event(), []

    async def load(self: KnownTopics) -> None:
        connecting.set()
        await asyncio.Event().wait()

    close = Sink.close

    async def closing(self: Sink) -> None:
        closed.append(self)
        await close(self)

    monkeypatch.setattr(KnownTopics, "load", load)
    monkeypatch.setattr(Sink, "close", closing)
    monkeypatch.setattr("pgrelay.check.position.Source", _Source)
    monkeypatch.setattr("pgrelay.check.position.Server", lambda *_: cast(Server, None))
    sections: dict[str, dict[str, Any]] = {
        "source": {"dsn": "host=127.0.0.1", "slot": "s"},
        "sink": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}},
        "records": {"prefix": "app"},
    }
    config = Config.model_validate(sections)
    check = asyncio.create_task(position_findings(cast(Catalog, None), config, None, False))
    await connecting.wait()
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
    assert len(closed) == 1


class _Source(Source):
    """A source that does not answer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def identify(self) -> Any:
        return None
