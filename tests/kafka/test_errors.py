"""What Kafka's errors say to the operator."""

import re
import struct
from collections.abc import Iterator
from socketserver import StreamRequestHandler

import pytest
from confluent_kafka import KafkaError

from pgrelay.check.kafka import unreachable
from pgrelay.config import SinkConfig
from pgrelay.errors import KafkaUnavailable, RecordRefused, SetupError
from pgrelay.kafka.errors import delivery_error, denial, denied, failed_checks, uncreated, unreached
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from tests.answering import answering

UNSPOKEN = "sasl_ssl://k:9093/1: SASL PLAIN mechanism handshake failed:"
NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


def named(key: bytes | None) -> str:
    """How the message names the record after its transaction."""
    refused = delivery_error(TOO_LARGE, "app.public.t", 0x16B374D848, key)
    assert isinstance(refused, RecordRefused)
    assert (refused.topic, refused.commit_lsn) == ("app.public.t", 0x16B374D848)
    whole, _, rest = str(refused).partition(" can't be delivered: ")
    assert rest
    return whole.removeprefix("a record of topic app.public.t, of the transaction committed at 16/B374D848,")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b'{"id":1}', ' with key {"id":1}'),
        ('{"name":"Łódź"}'.encode(), ' with key {"name":"Łódź"}'),
        (None, ""),
        (b"\x00\x00\x00\x00\x01\x02\xff\n", r" with key \x00\x00\x00\x00\x01\x02\xff\n"),
    ],
    ids=["json", "unicode", "no key", "avro"],
)
def test_a_refused_record_is_named_by_its_key_in_one_line(key: bytes | None, words: str) -> None:
    assert named(key) == words


@pytest.mark.parametrize("key", [b"k" * 201, b"\x00" * 100, "ź".encode() * 201, b"k" * 100_000])
def test_a_long_key_is_cut_to_200_characters(key: bytes) -> None:
    shown = named(key).removeprefix(" with key ")
    assert len(shown) == 201
    assert shown.endswith("…")


def test_a_key_of_200_characters_is_shown_whole() -> None:
    assert named(("ź" * 200).encode()) == " with key " + "ź" * 200


def test_a_refused_logical_message_is_left_out_by_its_own_option() -> None:
    """A table may be called `message`, so its cure is told too."""
    message = "or set source.messages: false if it is a logical message, and else take the table out of "
    for refused in delivery_error(TOO_LARGE, "app.message", 0), failed_checks("app.message", 0):
        assert str(refused).endswith(f"; {message}the publication")
    for refused in delivery_error(TOO_LARGE, "app.public.t", 0), failed_checks("app.public.t", 0):
        assert str(refused).endswith("; or take the table out of the publication")


@pytest.mark.parametrize(
    ("topic", "left_out"),
    [
        (
            "app.transaction",
            "or set records.transaction_topic: false if it is the end of a transaction, and else take the "
            "table out of the publication",
        ),
        ("app.offsets", "or take the table out of the publication, if this is a table's topic"),
        ("app.schema", "or take the table out of the publication, if this is a table's topic"),
    ],
)
def test_a_refused_record_of_our_own_is_not_left_out_by_a_table(topic: str, left_out: str) -> None:
    assert str(delivery_error(TOO_LARGE, topic, 0)).endswith(f"; {left_out}")


def test_a_record_with_a_refused_timestamp_waits_for_a_correct_clock() -> None:
    wrong = delivery_error(KafkaError(KafkaError.INVALID_TIMESTAMP), "app.public.t", 0)
    assert isinstance(wrong, KafkaUnavailable)
    assert str(wrong).endswith("; correct the wrong clock")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            r"writes to topic app\.public\.t: .*; grant WRITE and DESCRIBE on it$",
        ),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "us: .*; correct the credentials in sink.kafka: "),
    ],
)
def test_a_record_that_is_denied_tells_a_right_from_a_login(code: int, told: str) -> None:
    refused = delivery_error(KafkaError(code), "app.public.t", 0)
    assert isinstance(refused, SetupError)
    assert re.match(f"Kafka refuses {told}", str(refused))


LOST = "may have lost acknowledged records, for example by an unclean leader election; copy its tables"


def test_records_that_a_new_leader_lacks_are_reported_as_lost() -> None:
    """Nothing else would report them: the next producer starts afresh, and the slot has moved past them."""
    lost = delivery_error(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER), "app.public.t", 0)
    assert isinstance(lost, KafkaUnavailable)
    assert LOST in str(lost)


def test_a_request_that_was_given_up_and_repeated_is_no_loss() -> None:
    """As under a quota, by which a broker holds its answers back for longer than we wait."""
    text = (
        "ProduceRequest for app.t [2] with 25 message(s) failed due to sequence desynchronization with "
        "broker 1 (PID{Id:101,Epoch:2}, base seq 106, last partition error _TIMED_OUT (actions Retry,"
        "MsgPossiblyPersisted, base seq 106..130, 4127ms ago)"
    )
    slow = delivery_error(KafkaError(KafkaError._FATAL, text), "app.t", 0)
    assert isinstance(slow, KafkaUnavailable)
    assert str(slow).endswith("; raise socket.timeout.ms in sink.kafka, or the quota")
    assert "lost" not in str(slow)
    long_before = text.replace("4127ms", "604800000ms")
    assert LOST in str(delivery_error(KafkaError(KafkaError._FATAL, long_before), "app.t", 0))


@pytest.mark.parametrize(
    ("reason", "told"), [("failed due to sequence desynchronization with broker 2", True), ("no", False)]
)
@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_producer_that_failed_because_of_lost_records_reports_them(
    reason: str, told: bool, exactly_once: bool
) -> None:
    config = SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})
    offsets = Offsets(config, "app.offsets", Identity("7", "d", "s"))
    sink = TransactionalSink(config, offsets) if exactly_once else Sink(config)
    assert (LOST in str(sink._failure_of(KafkaError(KafkaError._FATAL, reason)))) == told
    await sink.close()


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._DESTROY,
    ],
)
def test_a_topic_that_the_client_drops_is_reported_as_gone(code: int) -> None:
    """Whichever of librdkafka's error codes the record gets: that depends on where the record was."""
    gone = delivery_error(KafkaError(code), "app.public.t", 0)
    assert isinstance(gone, KafkaUnavailable)
    assert str(gone).startswith("topic app.public.t is gone (")
    assert str(gone).endswith("its earlier records are lost: copy its tables again")


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
    assert type(uncreated("app.public.t", KafkaError(code))) is KafkaUnavailable


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
    ],
)
def test_a_topic_whose_creation_can_not_succeed_is_a_setup_error(code: int) -> None:
    refused = uncreated("app.public.t", KafkaError(code))
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
    assert denied(KafkaError(KafkaError._AUTHENTICATION, text)) == refused


def test_the_cure_for_an_absent_token_server_is_to_start_it() -> None:
    assert str(unreached(f"{NO_TOKEN}Could not resolve host: idp")) == (
        f"Kafka can't be reached: {NO_TOKEN}Could not resolve host: idp; start the server at "
        "sasl.oauthbearer.token.endpoint.url, or correct the sasl.oauthbearer.* options in sink.kafka"
    )


def test_a_run_names_the_same_cure_as_a_check() -> None:
    complaint = KafkaError(KafkaError._RESOLVE, "k:9092/bootstrap: Failed to resolve 'k:9092'")
    finding = unreachable(complaint, KafkaError(KafkaError._TRANSPORT), "k:9092")
    assert str(unreached(complaint.str())).endswith(f"; {finding.cure}")
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
        await sink.topics.learn()
    assert not sink.failures.shut_out
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
    assert "; set security.protocol in sink.kafka to the listener's" in str(unreached(reason))


def test_for_a_listener_without_sasl_the_cure_names_no_password() -> None:
    reason = f"{UNSPOKEN} Broker: Request not valid in current SASL state: broker's supported mechanisms: "
    assert denied(KafkaError(KafkaError._AUTHENTICATION, reason))
    assert str(denial(reason)) == (
        f"Kafka refuses us: {reason}; correct security.protocol in sink.kafka: that listener does not use "
        "SASL"
    )
