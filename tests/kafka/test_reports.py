"""What stays of a producer after a call that took in reports has failed; without a broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from pgrelay.kafka.reports import take_reports
from tests.kafka.sinks import NOBODY, producers

FATAL = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))


def refuse(error: object, message: object) -> None:
    """A report that fails: before Python 3.12 the client never frees the error that it then raises."""
    raise KafkaException(*FATAL.args)


def purged_producer() -> Producer:
    producer = Producer(NOBODY)
    producer.produce("t", b"v", on_delivery=refuse)
    producer.purge()
    return producer


def test_the_error_of_a_report_does_not_keep_the_producer() -> None:
    before = producers()
    producer = purged_producer()
    with pytest.raises(KafkaException) as raised:
        take_reports(producer.flush, 5)
    assert raised.value.args == FATAL.args
    del producer, raised
    assert producers() == before


def test_nor_does_an_error_that_was_being_dealt_with() -> None:
    before = producers()

    def fail() -> None:
        producer = purged_producer()
        try:
            take_reports(producer.flush, 5)
        except KafkaException:
            producer.produce("t", b"v", on_delivery=refuse)
            producer.purge()
            take_reports(producer.flush, 5)

    with pytest.raises(KafkaException):
        fail()
    assert producers() == before


def test_a_failure_that_the_client_has_forgotten_is_one_of_the_producers() -> None:
    """Seen on a loaded machine: what took in a report had cleared the exception."""

    def poll(timeout_s: float) -> int:
        raise SystemError("<built-in method poll> returned NULL without setting an exception")

    with pytest.raises(KafkaException, match="the producer has failed for good"):
        take_reports(poll, 0)
