"""What is reported about a failed Kafka transaction, and who serves its reports. There is no broker."""

import asyncio
import math
import time
from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka import KafkaError

from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.kafka.offsets import Position
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from tests.clock import Clock
from tests.integration.waiting import eventually
from tests.kafka.producer import PASSED_OVER, FakeProducer
from tests.kafka.sinks import produce, transactional_sink, transactions_of


async def test_a_position_that_no_transaction_accepts_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = transactional_sink()
    # For librdkafka no transaction has begun, the same as after a failure.
    monkeypatch.setattr(sink, "_began_at", time.monotonic())
    with pytest.raises(KafkaUnavailable, match=r"^topic app\.offsets: "):
        await sink.commit(Position(1))


def failed_by(code: int) -> FakeProducer:
    """A producer whose transactions fail."""
    kafka = FakeProducer()
    kafka.error = KafkaError(code)
    return kafka


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
    code: int, kind: type[PgrelayError], cure: str
) -> None:
    sink = transactions_of(failed_by(code))
    with pytest.raises(kind, match=f"^a Kafka transaction failed: .*{cure}") as caught:
        await sink.commit(Position(1))
    assert getattr(caught.value, "topic", "") == ""


async def test_a_transaction_that_ends_for_want_of_a_login_names_the_credentials() -> None:
    """WRITE on the topics would not help."""
    sink = transactions_of(failed_by(KafkaError.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(SetupError, match=r"^Kafka refuses us: .*; correct the credentials in sink\.kafka: "):
        await sink.commit(Position(1))


async def test_a_commit_is_not_repeated_once_kafka_refuses_us() -> None:
    """To librdkafka a broker that refuses our password is away."""
    producer = FakeProducer()
    producer.commits.clear()
    sink = transactions_of(producer)
    sink.failures.on_error(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
    with pytest.raises(SetupError, match=r"^Kafka refuses us: wrong password; correct the credentials"):
        async with asyncio.timeout(60):
            await sink.commit(Position(1))


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
    kafka = FakeProducer()
    sink = transactions_of(kafka)

    def abort() -> None:
        clock.now += takes_s
        kafka.error = KafkaError(code)
        kafka.purge()

    kafka.events.append(abort)
    with pytest.raises(KafkaUnavailable, match=f"^{why}.*sink.kafka, 60000"):
        await sink.commit(Position(1))
    # So no other commit is tried.
    assert sink.failures.failed
    # Whoever asks next learns the same, not that the record was purged.
    with pytest.raises(KafkaUnavailable, match=f"^{why}.*sink.kafka, 60000"):
        sink.poll()


@pytest.mark.parametrize(("age_s", "why"), [(59, "topic app.t: Local"), (61, "a Kafka transaction was")])
def test_the_error_for_purged_records_depends_on_their_transactions_age(
    age_s: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, kafka = Clock(), FakeProducer()
    monkeypatch.setattr("pgrelay.kafka.transactional.time", clock)
    sink = transactions_of(kafka)
    produce(sink, "app.t")
    clock.now += age_s
    kafka.purge()
    with pytest.raises(KafkaUnavailable, match=f"^{why}"):
        sink.poll()


@pytest.mark.parametrize("learn", [Sink.poll, produce], ids=["dropped", "not taken"])
def test_what_a_transaction_has_failed_by_is_told_whatever_shows_it(learn: Callable[[Sink], object]) -> None:
    """A record that was dropped, or is not taken, says no more than that it has failed."""
    kafka = FakeProducer()
    sink = transactions_of(kafka)
    produce(sink)
    kafka.error = KafkaError(KafkaError._FENCED)
    if learn is Sink.poll:
        kafka.purge()
    with pytest.raises(KafkaUnavailable, match=r"^the producer was fenced: another relay of this slot"):
        learn(sink)
    assert sink.failures.failed


async def test_the_record_that_spoilt_a_transaction_is_named_if_its_report_comes() -> None:
    kafka = FakeProducer(waits=3)
    sink = transactions_of(kafka)
    produce(sink, "app.t")
    kafka.error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    kafka.answers = iter([KafkaError.MSG_SIZE_TOO_LARGE])
    with pytest.raises(RecordRefused) as caught:
        produce(sink)
    assert (caught.value.topic, caught.value.by_broker) == ("app.t", True)


async def committing(kafka: FakeProducer, sink: TransactionalSink) -> asyncio.Task[None]:
    """A commit that is under way until `commits` is set."""
    kafka.commits.clear()
    commit = asyncio.create_task(sink.commit(Position(1)))
    await eventually(lambda: "commit" in kafka.calls, "the commit")
    kafka.calls.clear()
    return commit


async def serve(sink: TransactionalSink) -> None:
    """Everything that takes in reports."""
    pending = iter([True, False])
    sink.poll()
    sink.flush_early()
    await sink.drain(lambda: next(pending), 10)


async def test_no_commit_covers_a_record_that_kafka_may_lack() -> None:
    """The client would commit: it calls the record delivered, because a later one is."""
    kafka = FakeProducer()
    sink = transactions_of(kafka)
    produce(sink, "app.t")
    kafka.answers = iter([PASSED_OVER])
    with pytest.raises(KafkaUnavailable, match=r"^topic app\.t: .* may lack earlier ones"):
        await sink.commit(Position(1))
    assert sink.failures.failed
    assert kafka.committed == []


async def test_a_commit_notices_that_its_transaction_has_failed_though_a_record_is_never_answered() -> None:
    """librdkafka sends nothing of a transaction that has failed."""
    kafka = FakeProducer(waits=math.inf)
    sink = transactions_of(kafka)
    produce(sink)
    commit = asyncio.create_task(sink.commit(Position(1)))
    await eventually(lambda: kafka.calls.count("flush") >= 2, "the commit to wait")
    kafka.error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    with pytest.raises(KafkaUnavailable, match=r"^a Kafka transaction failed: "):
        await asyncio.wait_for(commit, 60)


async def test_during_a_transactional_call_nobody_else_serves_reports() -> None:
    """Otherwise two threads would compete for each report."""
    kafka = FakeProducer()
    sink = transactions_of(kafka)
    commit = await committing(kafka, sink)
    await serve(sink)
    assert kafka.calls == []
    kafka.commits.set()
    await commit
    assert kafka.positions == [Position(1)]
    produce(sink)
    await serve(sink)
    assert kafka.calls == ["poll", "flush", "flush"]


async def test_waiting_for_a_transactional_call_does_not_spin() -> None:
    kafka = FakeProducer()
    sink = transactions_of(kafka)
    commit = await committing(kafka, sink)
    looks = count()
    assert not await sink.drain(lambda: next(looks) >= 0, 0.1)
    assert next(looks) <= 12
    kafka.commits.set()
    await commit


async def test_a_call_that_takes_long_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try is short, because a stop waits for its thread."""
    monkeypatch.setattr("pgrelay.kafka.transactional._TRY_S", 0.02)
    kafka = FakeProducer()
    sink = transactions_of(kafka)
    commit = await committing(kafka, sink)
    await eventually(lambda: kafka.calls.count("commit") >= 2, "another try")
    kafka.commits.set()
    await commit
    assert kafka.positions == [Position(1)]
