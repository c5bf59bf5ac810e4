"""What the operator is told of records that Kafka refuses, or may have lost."""

import re

import pytest
from confluent_kafka import KafkaError

from pgrelay.config import SinkConfig
from pgrelay.errors import KafkaUnavailable, RecordRefused, SetupError
from pgrelay.kafka.delivery_errors import delivery_error, failed_checks_error
from pgrelay.kafka.offsets import Identity, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink

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
    for refused in delivery_error(TOO_LARGE, "app.message", 0), failed_checks_error("app.message", 0):
        assert str(refused).endswith(f"; {message}the publication")
    for refused in delivery_error(TOO_LARGE, "app.public.t", 0), failed_checks_error("app.public.t", 0):
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
    ("code", "expected"),
    [
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            r"writes to topic app\.public\.t: .*; grant WRITE and DESCRIBE on it$",
        ),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "us: .*; correct the credentials in sink.kafka: "),
    ],
)
def test_a_record_that_is_denied_tells_a_right_from_a_login(code: int, expected: str) -> None:
    refused = delivery_error(KafkaError(code), "app.public.t", 0)
    assert isinstance(refused, SetupError)
    assert re.match(f"Kafka refuses {expected}", str(refused))


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
    ("reason", "expected"), [("failed due to sequence desynchronization with broker 2", True), ("no", False)]
)
@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_producer_that_failed_because_of_lost_records_reports_them(
    reason: str, expected: bool, exactly_once: bool
) -> None:
    config = SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})
    offsets = Offsets(config, "app.offsets", Identity("7", "d", "s"))
    sink = TransactionalSink(config, offsets) if exactly_once else Sink(config)
    assert (LOST in str(sink._call_error(KafkaError(KafkaError._FATAL, reason)))) == expected
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
