"""A reset during which Kafka goes away. There is no server."""

import asyncio
from collections.abc import Sequence

import pytest

from pgrelay.encode.records import BY_KEY, Record
from pgrelay.errors import KafkaUnavailable
from pgrelay.kafka.failures import Failures
from pgrelay.kafka.sink import Sink
from pgrelay.relay.reset import _forget


class Gone(Sink):
    """Its brokers have gone away since they named their topics."""

    def __init__(self) -> None:
        self.failures = Failures({})
        self.failures.problem = "connection refused"

    async def publish(self, records: Sequence[Record]) -> None:
        await asyncio.sleep(3600)


async def test_a_reset_without_kafkas_acknowledgement_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.relay.reset._PATIENCE_S", 0.05)
    with pytest.raises(KafkaUnavailable) as caught:
        await _forget(Gone(), "app.offsets", [("app.offsets", b"{}", None, None, BY_KEY)], "s", dropped=True)
    assert str(caught.value) == (
        "slot s is dropped, but its position in topic app.offsets is not forgotten: no acknowledgement "
        "within 0.05 s (connection refused); once the brokers answer, run pgrelay reset again, or the next "
        "run may end with exit code 3"
    )
