"""What a reset does where Kafka goes meanwhile. No server is there."""

import asyncio
from collections.abc import Sequence

import pytest

from pgrelay.encode.records import BY_KEY, Record
from pgrelay.errors import KafkaUnavailable
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.offsets import Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.relay.reset import _forget


class Known(Offsets):
    """There is one position."""

    topic = "app.offsets"

    def __init__(self) -> None: ...

    async def forgetting(self) -> list[Record]:
        return [(self.topic, b"{}", None, None, BY_KEY)]


class Told(KnownTopics):
    """Whatever one asks for is there."""

    def __init__(self) -> None: ...

    def __contains__(self, topic: str) -> bool:
        return True


class Gone(Sink):
    """Whose brokers have gone since they told their topics."""

    problem = "connection refused"

    def __init__(self) -> None:
        self.topics = Told()

    async def publish(self, records: Sequence[Record]) -> None:
        await asyncio.sleep(3600)


async def test_kafka_that_acknowledges_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.relay.reset._PATIENCE_S", 0.05)
    with pytest.raises(KafkaUnavailable) as caught:
        await _forget(Gone(), Known())
    assert str(caught.value) == (
        "Kafka has not acknowledged within 0.05 s that the position in topic app.offsets is forgotten: "
        "connection refused; run pgrelay reset again once the brokers answer, or the next run may end with "
        "exit code 3"
    )
