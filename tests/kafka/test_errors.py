"""What Kafka's errors say to the operator."""

import struct
from collections.abc import Iterator
from socketserver import StreamRequestHandler

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.kafka import kafka_unreachable
from pgrelay.config import SinkConfig
from pgrelay.errors import KafkaUnavailable, SetupError
from pgrelay.kafka.errors import creation_error, denied_error, is_denied, unreachable_error
from pgrelay.kafka.sink import Sink
from tests.answering import answering

UNSPOKEN = "sasl_ssl://k:9093/1: SASL PLAIN mechanism handshake failed:"
NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.UNKNOWN,
        KafkaError._DESTROY_BROKER,
    ],
)
def test_creating_a_topic_is_retried_while_the_cluster_has_no_leader(code: int) -> None:
    assert type(creation_error("app.public.t", KafkaError(code))) is KafkaUnavailable


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
    ],
)
def test_a_topic_whose_creation_can_not_succeed_is_a_setup_error(code: int) -> None:
    refused = creation_error("app.public.t", KafkaError(code))
    assert type(refused) is SetupError
    assert "; create it yourself, or correct pgrelay's rights" in str(refused)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("sasl_ssl://k:9093/1: SASL authentication error: Authentication failed", True),
        (f"{UNSPOKEN} Broker: Unsupported SASL mechanism: broker's supported mechanisms: PLAIN", True),
        (f"{UNSPOKEN} Local: Broker transport failure: broker's supported mechanisms: (n/a)", False),
        (f"{UNSPOKEN} Local: Timed out: broker's supported mechanisms: (n/a)", False),
        (f'{NO_TOKEN}{{"error":"invalid_client"}}', True),
        (f"{NO_TOKEN}Unrecognized sasl.oauthbearer.config beginning at: a=b", True),
        (
            f"{NO_TOKEN}SSL certificate OpenSSL verify result: unable to get local issuer certificate (20)",
            True,
        ),
        (f"{NO_TOKEN}SSL: no alternative certificate subject name matches target hostname 'idp'", True),
        (f"{NO_TOKEN}error adding trust anchors from file: /ca.pem", True),
        (f"{NO_TOKEN}SSL connection timeout", False),
        (f"{NO_TOKEN}Failed to connect to idp port 443 after 0 ms: Could not connect to server", False),
        (f"{NO_TOKEN}<html>503 Service Unavailable</html>", False),
    ],
)
def test_a_server_that_does_not_answer_has_not_denied_access(text: str, refused: bool) -> None:
    """Although librdkafka has one code for both."""
    assert is_denied(KafkaError(KafkaError._AUTHENTICATION, text)) == refused


def test_the_cure_for_an_absent_token_server_is_to_start_it() -> None:
    assert str(unreachable_error(f"{NO_TOKEN}Could not resolve host: idp")) == (
        f"Kafka can't be reached: {NO_TOKEN}Could not resolve host: idp; start the server at "
        "sasl.oauthbearer.token.endpoint.url, or correct the sasl.oauthbearer.* options in sink.kafka"
    )


def test_a_run_names_the_same_cure_as_a_check() -> None:
    complaint = KafkaError(KafkaError._RESOLVE, "k:9092/bootstrap: Failed to resolve 'k:9092'")
    finding = kafka_unreachable(complaint, KafkaError(KafkaError._TRANSPORT), "k:9092")
    assert str(unreachable_error(complaint.str())).endswith(f"; {finding.cure}")
    assert finding.cure.startswith("correct the host in")


VERSIONS, HANDSHAKE = 18, 17  # requests, by Kafka's numbers
KNOWN = (VERSIONS, 0, 0), (HANDSHAKE, 0, 1), (36, 0, 1), (3, 0, 8)


class Leaving(StreamRequestHandler):
    """A broker that answers which requests it supports, and disconnects at the SASL handshake."""

    def handle(self) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(int.from_bytes(size))
            api, version, correlation = struct.unpack(">hhi", request[:8])
            if api == HANDSHAKE:
                return
            answer = struct.pack(">ihi", correlation, 35 if version else 0, len(KNOWN))
            answer += b"".join(struct.pack(">hhh", *known) for known in KNOWN)
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


@pytest.fixture
def leaving() -> Iterator[int]:
    """Run such a broker; yield its port."""
    with answering(Leaving) as port:
        yield port


async def test_a_broker_that_disconnects_during_authentication_is_waited_for(
    leaving: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a restarting broker does; librdkafka has the same code for a wrong password."""
    monkeypatch.setattr("pgrelay.kafka.sink._METADATA_TROUBLED_S", 0)
    kafka = {
        "bootstrap.servers": f"127.0.0.1:{leaving}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "relay",
        "sasl.password": "right",
    }
    sink = Sink(SinkConfig(kafka=kafka))
    with pytest.raises(KafkaUnavailable, match="handshake failed: Local: Broker transport failure"):
        await sink.topics.load()
    assert not sink.failures.locked_out
    await sink.close()


@pytest.mark.parametrize(
    "reason",
    [
        "ssl://k:9092/1: SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a "
        "PLAINTEXT broker listener?",
        "k:9093/1: Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol "
        "configuration (connecting to a SSL listener?) or broker version is < 0.10",
    ],
)
def test_the_cure_for_another_protocols_listener_is_security_protocol(reason: str) -> None:
    assert "; set security.protocol in sink.kafka to the listener's" in str(unreachable_error(reason))


def test_for_a_listener_without_sasl_the_cure_names_no_password() -> None:
    reason = f"{UNSPOKEN} Broker: Request not valid in current SASL state: broker's supported mechanisms: "
    assert is_denied(KafkaError(KafkaError._AUTHENTICATION, reason))
    assert str(denied_error(reason)) == (
        f"Kafka refuses us: {reason}; correct security.protocol in sink.kafka: that listener does not use "
        "SASL"
    )
