"""What Kafka's errors say to the operator."""

import pytest
from confluent_kafka import KafkaError

from pgrelay.errors import KafkaUnavailable, RecordRefused
from pgrelay.kafka.errors import delivery_error

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


def named(key: bytes | None) -> str:
    """How the line names the record behind its transaction."""
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
def test_of_a_long_key_200_characters_are_shown(key: bytes) -> None:
    shown = named(key).removeprefix(" with key ")
    assert len(shown) == 201
    assert shown.endswith("…")


def test_a_key_of_200_characters_is_shown_whole() -> None:
    assert named(("ź" * 200).encode()) == " with key " + "ź" * 200


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._DESTROY,
    ],
)
def test_a_topic_that_the_client_lets_go_of_is_gone(code: int) -> None:
    """By whichever of librdkafka's words a record learns of it: which one, depends on where it was."""
    gone = delivery_error(KafkaError(code), "app.public.t", 0)
    assert isinstance(gone, KafkaUnavailable)
    assert str(gone).startswith("topic app.public.t is gone (")
    assert str(gone).endswith("its earlier records are lost: copy the tables that it had")
