"""A reset during which Kafka goes away. There is no server."""

import math

import pytest
from confluent_kafka import KafkaError

from pgrelay.encode.records import BY_KEY
from pgrelay.errors import KafkaUnavailable
from pgrelay.relay.reset import _forget
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import OFFSETS, sink_of


async def test_a_reset_without_kafkas_acknowledgement_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.relay.reset._PUBLISH_TIMEOUT_S", 0.05)
    sink = sink_of(FakeProducer(waits=math.inf))
    sink.failures.on_error(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    with pytest.raises(KafkaUnavailable) as caught:
        await _forget(sink, OFFSETS, [("app.offsets", b"{}", None, None, BY_KEY)], dropped=True)
    assert str(caught.value) == (
        "slot s is dropped, but its position in topic app.offsets is not forgotten: no acknowledgement "
        "within 0.05 s (connection refused); once the brokers answer, run pgrelay reset again, or the next "
        "run may end with exit code 3"
    )
