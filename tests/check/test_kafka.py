"""Why Kafka does not answer, by the errors that librdkafka reported, and options without effect."""

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.kafka import broker_unreachable, kafka_findings, kafka_unreachable, security_findings
from pgrelay.config import SinkConfig

SILENCE = KafkaError(KafkaError._TRANSPORT)


@pytest.mark.parametrize(
    ("code", "text", "cure"),
    [
        (KafkaError._TRANSPORT, "b:9092/bootstrap: Connect failed: Connection refused", "start the brokers"),
        (KafkaError._RESOLVE, "Failed to resolve 'b:9092'", "correct the host"),
        (
            KafkaError._BAD_MSG,
            "Invalid response size 1157627904",
            "point sink.kafka's bootstrap.servers at a",
        ),
        (
            KafkaError._TRANSPORT,
            "ssl://k:1/1: Disconnected: SSL connection closed by peer",
            "set security.protocol",
        ),
        (
            KafkaError._TRANSPORT,
            "SSL handshake failed: Disconnected",
            "correct security.protocol and the ssl",
        ),
        (KafkaError._SSL, "SSL handshake failed", "correct security.protocol and the ssl.*"),
        (
            KafkaError._SSL,
            "ssl://k:1/1: SSL handshake failed: connecting to a PLAINTEXT broker listener?",
            "set security.protocol",
        ),
        (
            KafkaError._SSL,
            "ssl://k:1/1: SSL handshake failed: certificate verify failed",
            "correct security.protocol",
        ),
        (
            KafkaError._AUTHENTICATION,
            "sasl_plaintext://k:1/1: SASL PLAIN mechanism handshake failed: Broker: Request not valid in "
            "current SASL state: broker's supported mechanisms: ",
            "correct security.protocol",
        ),
        (KafkaError._AUTHENTICATION, "broker's supported mechanisms: (n/a)", "check the broker"),
        (
            KafkaError._AUTHENTICATION,
            "sasl_plaintext://k:1/1: Authentication failed",
            "correct the credentials in sink.kafka: sasl.mechanism, sasl.username",
        ),
        (
            KafkaError._AUTHENTICATION,
            "SASL authentication error",
            "correct the credentials in sink.kafka: sasl.mechanism, sasl.username",
        ),
        (
            KafkaError._AUTHENTICATION,
            "Failed to acquire SASL OAUTHBEARER token: Could not resolve host: idp",
            "start the server at sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_the_reason_why_kafka_does_not_answer_is_named(code: int, text: str, cure: str) -> None:
    complaint = KafkaError(code, f"{text} (after 3ms in state CONNECT, 2 identical error(s) suppressed)")
    finding = kafka_unreachable(complaint, SILENCE, "b:9092")
    assert (finding.level, finding.what) == ("error", "Kafka does not answer at b:9092")
    assert finding.why == text
    assert finding.cure.startswith(cure)


def test_for_a_broker_that_disconnects_silently_the_cure_is_security_protocol() -> None:
    assert "security.protocol" in kafka_unreachable(None, SILENCE, "b:9092").cure


def test_a_wrong_advertised_address_is_named() -> None:
    finding = broker_unreachable(1, "kafka:9092")
    text = "ssl://kafka:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused"
    assert kafka_unreachable(KafkaError(KafkaError._TRANSPORT, text), SILENCE, "b:9092") == finding
    assert finding.what == "broker 1 advertises kafka:9092, but nothing answers there"
    assert "advertised.listeners" in finding.cure


async def test_a_client_error_does_not_show_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgrelay.kafka.cluster._TIMEOUT_S", 0.0)  # nobody is there
    options = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "hunter2",
    }
    (finding,) = await kafka_findings(SinkConfig(kafka=options), ())
    assert "Unrecognized sasl.oauthbearer.config" in finding.why
    assert "hunter2" not in f"{finding}"


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
    (finding,) = security_findings(options)
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
    assert security_findings(options) == []


def test_unverified_brokers_are_a_warning() -> None:
    options = {"security.protocol": "SASL_SSL", "enable.ssl.certificate.verification": "False"}
    (finding,) = security_findings(options)
    assert finding.what == "sink.kafka does not verify the brokers' certificates"
    assert security_findings(options | {"enable.ssl.certificate.verification": "true"}) == []
