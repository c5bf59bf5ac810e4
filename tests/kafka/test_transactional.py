"""What is reported about a failed Kafka transaction, and who serves its reports. There is no broker."""

import asyncio
import time
from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.kafka.offsets import Delivered
from tests.clock import Clock
from tests.kafka.sinks import produce, transactional_sink


async def test_a_position_that_no_transaction_accepts_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = transactional_sink()
    # For librdkafka no transaction has begun, the same as after a failure.
    monkeypatch.setattr(sink, "_begun_s", time.monotonic())
    with pytest.raises(KafkaUnavailable, match=r"^topic app\.offsets: "):
        await sink.commit(Delivered(1))


class Failing:
    """A producer whose transactions fail."""

    def __init__(self, code: int) -> None:
        self._code = code

    def begin_transaction(self) -> None:
        raise KafkaException(KafkaError(self._code))


@pytest.mark.parametrize(
    ("code", "kind", "cure"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordRefused, "; raise the topic's max.message.bytes"),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            SetupError,
            "; grant WRITE and DESCRIBE on the topics that pgrelay check names",
        ),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaUnavailable, ": a topic is gone: .*: copy its tables again$"),
        (KafkaError._STATE, KafkaUnavailable, ""),
    ],
)
async def test_a_failed_transaction_names_its_cure_but_no_topic(
    code: int, kind: type[PgrelayError], cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = transactional_sink()
    monkeypatch.setattr(sink, "_producer", Failing(code))
    with pytest.raises(kind, match=f"^a Kafka transaction failed: .*{cure}") as caught:
        await sink.commit(Delivered(1))
    assert getattr(caught.value, "topic", "") == ""


async def test_a_transaction_that_ends_for_want_of_a_login_names_the_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """WRITE on the topics would not help."""
    sink = transactional_sink()
    monkeypatch.setattr(sink, "_producer", Failing(KafkaError.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(SetupError, match=r"^Kafka refuses us: .*; correct the credentials in sink\.kafka: "):
        await sink.commit(Delivered(1))


class Away:
    """A producer whose commits would be repeated for ever."""

    def begin_transaction(self) -> None: ...

    def produce(self, **record: object) -> None: ...

    def __len__(self) -> int:
        return 0

    def poll(self, timeout_s: float) -> int:
        return 0

    def commit_transaction(self, timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))


async def test_a_commit_is_not_repeated_once_kafka_refuses_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """To librdkafka a broker that refuses our password is away."""
    sink = transactional_sink()
    monkeypatch.setattr(sink, "_producer", Away())
    sink.failures.complain(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with pytest.raises(SetupError, match=r"^Kafka refuses us: wrong password; correct the credentials"):
        async with asyncio.timeout(10):
            await sink.commit(Delivered(1))


class Aborted:
    """A producer whose transaction fails at its commit, after its records were purged."""

    def __init__(self, code: int, takes_s: float, clock: Clock) -> None:
        self._code, self._takes_s, self._clock = code, takes_s, clock
        self._reports: list[Callable[..., None]] = []

    def __len__(self) -> int:
        return 0

    def begin_transaction(self) -> None:
        pass

    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, report: Callable[..., None]
    ) -> None:
        self._reports.append(report)

    def commit_transaction(self, timeout_s: float) -> None:
        self._clock.now += self._takes_s
        self.poll(0)
        raise KafkaException(KafkaError(self._code))

    def poll(self, timeout_s: float) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            report(KafkaError(KafkaError._PURGE_QUEUE), Message(topic="app.t"))
        return len(reports)


@pytest.mark.parametrize("code", [KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize(
    ("takes_s", "why"),
    [
        (59, "the producer was fenced: another relay of this slot has taken over, or the brokers aborted a "),
        (75, "a Kafka transaction was open for 75 s, and brokers abort one after transaction.timeout.ms in "),
    ],
)
async def test_a_transaction_aborted_by_brokers_is_not_blamed_on_another_relay(
    code: int, takes_s: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers fence a producer in both cases, and the purged records do not say which it was."""
    clock = Clock()
    monkeypatch.setattr("pgrelay.kafka.transactional.time", clock)
    sink = transactional_sink()
    monkeypatch.setattr(sink, "_producer", Aborted(code, takes_s, clock))
    with pytest.raises(KafkaUnavailable, match=f"^{why}.*sink.kafka, 60000"):
        await sink.commit(Delivered(1))
    # So no other commit is tried.
    assert sink.failures.failed
    # Whoever asks next learns the same, not that the record was purged.
    with pytest.raises(KafkaUnavailable, match=f"^{why}.*sink.kafka, 60000"):
        sink.poll()


@pytest.mark.parametrize(("age_s", "why"), [(59, "topic app.t: Local"), (61, "a Kafka transaction was")])
def test_the_error_for_purged_records_depends_on_their_transactions_age(
    age_s: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("pgrelay.kafka.transactional.time", clock)
    sink = transactional_sink()
    monkeypatch.setattr(sink, "_producer", Aborted(KafkaError._STATE, 0, clock))
    produce(sink)
    clock.now += age_s
    with pytest.raises(KafkaUnavailable, match=f"^{why}"):
        sink.poll()


class Calls:
    """A producer that only records which of its calls serve reports."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __len__(self) -> int:
        return 1

    def poll(self, timeout_s: float) -> int:
        self.made.append("poll")
        return 0

    def flush(self, timeout_s: float) -> int:
        self.made.append("flush")
        return 0


@pytest.mark.parametrize(("under_way", "made"), [(True, []), (False, ["poll", "flush", "flush"])])
def test_during_a_transactional_call_nobody_else_serves_reports(
    under_way: bool, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two threads would compete for each report."""
    sink = transactional_sink()
    calls = Calls()
    monkeypatch.setattr(sink, "_producer", calls)
    monkeypatch.setattr(sink, "_calling", under_way)
    pending = iter([True, False])
    sink.poll()
    sink.hurry()
    asyncio.run(sink.drain(lambda: next(pending), 10))
    assert calls.made == made


def test_waiting_for_a_transactional_call_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = transactional_sink()
    monkeypatch.setattr(sink, "_calling", True)
    looks = count()
    assert not asyncio.run(sink.drain(lambda: next(looks) >= 0, 0.1))
    assert next(looks) <= 12
