"""Why Kafka does not answer, by the errors that librdkafka reported."""

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.kafka import protection, unreachable

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


@pytest.mark.parametrize(
    ("options", "unused", "meant"),
    [
        ({"sasl.username": "relay", "sasl.password": "x"}, "sasl.username, sasl.password", "SASL_SSL"),
        ({"sasl.username": "relay", "security.protocol": "SSL"}, "sasl.username", "SASL_SSL"),
        ({"ssl.ca.location": "/ca.pem"}, "ssl.ca.location", "SSL"),
        (
            {"ssl.ca.location": "/ca.pem", "sasl.username": "relay"},
            "ssl.ca.location, sasl.username",
            "SASL_SSL",
        ),
        (
            {"ssl.ca.location": "/ca.pem", "security.protocol": "SASL_PLAINTEXT"},
            "ssl.ca.location",
            "SASL_SSL",
        ),
    ],
)
def test_options_that_the_protocol_passes_over_are_named(
    options: dict[str, str], unused: str, meant: str
) -> None:
    (finding,) = protection(options)
    assert finding.level == "warning"
    assert finding.what.startswith(f"{unused} in sink.kafka without effect")
    assert finding.cure == f"set security.protocol: {meant} in sink.kafka"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"security.protocol": "sasl_ssl", "sasl.username": "relay", "ssl.ca.location": "/ca.pem"},
        {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "relay"},
    ],
)
def test_options_that_the_protocol_uses_are_fine(options: dict[str, str]) -> None:
    assert protection(options) == []


def test_unverified_brokers_are_a_warning() -> None:
    options = {"security.protocol": "SASL_SSL", "enable.ssl.certificate.verification": "False"}
    (finding,) = protection(options)
    assert finding.what == "sink.kafka does not verify the brokers' certificates"
    assert protection(options | {"enable.ssl.certificate.verification": "true"}) == []
