"""Why Kafka does not answer, by the errors that librdkafka reported."""

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.kafka import unreachable

SILENCE = KafkaError(KafkaError._TRANSPORT)


@pytest.mark.parametrize(
    ("code", "text", "cure"),
    [
        (
            KafkaError._TRANSPORT,
            "k:1/bootstrap: Connect to ipv4#1.2.3.4:1 failed: Connection refused",
            "start",
        ),
        (
            KafkaError._TRANSPORT,
            "ssl://k:1/1: Disconnected: SSL connection closed by peer",
            "set security.prot",
        ),
        (
            KafkaError._SSL,
            "ssl://k:1/1: SSL handshake failed: connecting to a PLAINTEXT broker listener?",
            "set security.prot",
        ),
        (
            KafkaError._SSL,
            "ssl://k:1/1: SSL handshake failed: certificate verify failed",
            "correct security.prot",
        ),
        (
            KafkaError._AUTHENTICATION,
            "sasl_plaintext://k:1/1: SASL PLAIN mechanism handshake failed: Broker: Request not valid in "
            "current SASL state: broker's supported mechanisms: ",
            "correct security.prot",
        ),
        (
            KafkaError._AUTHENTICATION,
            "sasl_plaintext://k:1/1: Authentication failed",
            "correct the credentials in sink.kafka: sasl.mechanism",
        ),
    ],
)
def test_the_cure_follows_from_the_clients_error(code: int, text: str, cure: str) -> None:
    assert unreachable(KafkaError(code, text), SILENCE, "k:1").cure.startswith(cure)
