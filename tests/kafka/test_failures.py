"""Which of several errors tells why a producer has failed. There is no producer."""

import contextlib

import pytest
from confluent_kafka import KafkaError, Message, ThrottleEvent

from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.kafka.failures import Failures

REFUSED = KafkaError.INVALID_RECORD
PURGED = KafkaError._PURGE_QUEUE


def refuse(failures: Failures, code: int, key: bytes | None = b"k", topic: str = "app.t") -> None:
    failures.on_refused(KafkaError(code), Message(topic=topic, partition=0, key=key), 1)


@pytest.fixture
def failures() -> Failures:
    return Failures({})


def raised(failures: Failures, known: PgrelayError | None = None) -> PgrelayError | None:
    try:
        failures.raise_unless(known)
    except PgrelayError as error:
        return error
    return None


def test_nothing_has_failed_at_first(failures: Failures) -> None:
    assert not failures.failed
    assert raised(failures) is None
    assert (failures.problem, failures.take_count()) == (None, 0)


def test_a_batch_is_judged_once_every_thread_has_taken_in_its_reports(failures: Failures) -> None:
    """Confluent's client lets other threads run between two reports."""
    with failures.taking_reports():
        refuse(failures, REFUSED)
        with failures.taking_reports():
            pass
        assert raised(failures) is None, "the other thread's call has no report, and no verdict"
        assert failures.failed
        refuse(failures, REFUSED, key=None)
    with pytest.raises(RecordRefused, match="a compacted topic accepts no record without a key"):
        failures.raise_unless(None)
    assert failures.take_count() == 2
    assert failures.take_count() == 0


def test_reports_that_end_in_an_error_are_judged_too(failures: Failures) -> None:
    with contextlib.suppress(ValueError), failures.taking_reports():
        refuse(failures, REFUSED)
        raise ValueError
    assert isinstance(raised(failures), RecordRefused)


def test_what_is_known_already_is_not_raised_again(failures: Failures) -> None:
    with failures.taking_reports():
        refuse(failures, REFUSED)
    assert raised(failures, known=failures.reason) is None
    assert raised(failures, known=RecordRefused("another")) is failures.reason


def test_the_first_reason_counts_and_every_refusal_is_counted(failures: Failures) -> None:
    failures.on_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    first = failures.reason
    with failures.taking_reports():
        refuse(failures, REFUSED)
    failures.on_error(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    assert isinstance(first, SetupError)
    assert failures.reason is first
    assert failures.take_count() == 3


def test_a_refused_record_says_more_than_a_spent_transaction(failures: Failures) -> None:
    """It names its topic."""
    failures.transaction_error = RecordRefused("a Kafka transaction failed")
    assert failures.failed
    assert raised(failures) is failures.transaction_error
    with failures.taking_reports():
        refuse(failures, REFUSED)
    assert raised(failures) is failures.reason
    assert raised(failures, known=failures.reason) is failures.transaction_error


def test_a_dropped_record_is_only_a_symptom_and_none_is_counted(failures: Failures) -> None:
    """It does not say why. The first is kept: the others are of the same failure."""
    with failures.taking_reports():
        refuse(failures, PURGED)
        refuse(failures, PURGED, topic="app.other")
    assert failures.failed
    assert raised(failures) is None
    assert isinstance(failures.symptom, KafkaUnavailable)
    assert str(failures.symptom).startswith("topic app.t: ")
    assert failures.take_count() == 0


def test_a_record_of_which_only_a_later_one_is_acknowledged_may_be_missing(failures: Failures) -> None:
    """librdkafka calls it delivered."""
    with failures.taking_reports():
        failures.on_refused(None, Message(topic="app.t", partition=0, key=b"k"), 1)
    assert failures.take_count() == 0, "it is not refused for good"
    with pytest.raises(KafkaUnavailable, match=r"^topic app\.t: .* may lack earlier ones.*is sent again$"):
        failures.raise_unless(None)


@pytest.mark.parametrize(
    ("error", "locked_out"),
    [
        (KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED), True),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), False),
        (KafkaError(KafkaError._SSL, "certificate verify failed"), True),
    ],
    ids=["a credential", "a right", "their certificate"],
)
def test_wrong_credentials_and_certificates_shut_us_out_not_a_missing_right(
    failures: Failures, error: KafkaError, locked_out: bool
) -> None:
    failures.on_error(error)
    assert failures.locked_out == locked_out
    assert isinstance(raised(failures), SetupError)
    assert failures.problem is None


@pytest.mark.parametrize("more", ["", ", 30 identical error(s) suppressed"])
def test_complaints_that_differ_only_in_details_are_the_same(failures: Failures, more: str) -> None:
    failures.on_error(
        KafkaError(KafkaError._TRANSPORT, f"b:9092/3: refused (after 3ms in state CONNECT{more})")
    )
    assert failures.problem == "b:9092/3: refused"
    assert not failures.failed


def test_that_all_brokers_are_down_hides_no_problem_of_one(failures: Failures) -> None:
    """librdkafka says it after each, and not why."""
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    failures.on_error(down)
    assert failures.problem == "1/1 brokers are down"
    failures.on_error(KafkaError(KafkaError._TRANSPORT, "b:9092/3: refused"))
    failures.on_error(down)
    assert failures.problem == "b:9092/3: refused"


def test_a_complaint_shows_no_secret() -> None:
    failures = Failures({"sasl.oauthbearer.config": "hunter2"})
    failures.on_error(KafkaError(KafkaError._TRANSPORT, "b:9092/3: hunter2 is not understood"))
    assert failures.problem is not None
    assert "hunter2" not in failures.problem


def test_a_sink_says_which_reports_do_not_give_the_reason() -> None:
    failures = Failures({}, symptoms={KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER})
    with failures.taking_reports():
        refuse(failures, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert raised(failures) is None
    assert isinstance(failures.symptom, KafkaUnavailable)


def test_the_longest_delay_by_a_quota_is_told_once(failures: Failures) -> None:
    for delay_s in (0.4, 4.6, 1.0):
        failures.on_throttle(ThrottleEvent("127.0.0.1:9092/1", 1, delay_s))
    assert failures.take_throttled_s() == 4.6
    assert failures.take_throttled_s() == 0
