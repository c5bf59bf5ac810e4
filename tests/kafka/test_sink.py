"""When records are sent without lingering, and who processes delivery reports. There is no broker."""

import asyncio
import contextlib
import re
import weakref
from collections.abc import Callable, Coroutine, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from pgrelay.config import SinkConfig
from pgrelay.encode.records import BY_KEY, Headers, Record, record_size
from pgrelay.errors import KafkaUnavailable, RecordRefused, SetupError
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight
from tests.clock import Clock
from tests.integration.waiting import eventually
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import NOBODY, produce, record, sink_of, transactional_sink
from tests.threads import gc_disabled, librdkafka_threads

TOO_LARGE = 1_000_001  # bytes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pgrelay.kafka.sink.time", clock)
    return clock


@pytest.fixture
def sink(clock: Clock) -> Iterator[Sink]:
    sink = Sink(SinkConfig(kafka=NOBODY))
    yield sink
    asyncio.run(sink.close())


class Records(list[Record]):
    """A list that can be weakly referenced."""


def test_records_refused_for_lack_of_room_are_not_kept_alive() -> None:
    sink = Sink(SinkConfig(kafka={**NOBODY, "queue.buffering.max.messages": "1"}))
    with gc_disabled():
        records = Records([("t", b"k", b"v", None, BY_KEY)] * 2)
        delivery = sink.delivery(InFlight(None, 1), 1)
        assert sink.produce(records, 0, delivery) == 1
        assert sink.produce(records, 1, delivery) == 1
        held = weakref.ref(records)
        del records
        assert held() is None
    asyncio.run(sink.close())


def test_after_a_hurry_the_next_waits_for_an_acknowledgement(sink: Sink) -> None:
    produce(sink)
    assert sink.flush_early()
    produce(sink)
    assert not sink.flush_early()


def test_after_a_while_a_hurry_does_not_wait_any_more(sink: Sink, clock: Clock) -> None:
    produce(sink)
    assert sink.flush_early()
    produce(sink)
    clock.now += 0.009
    assert not sink.flush_early()
    clock.now += 0.002
    assert sink.flush_early()


@pytest.mark.parametrize("option", ["linger.ms", "queue.buffering.max.ms"])
def test_a_configured_linger_is_kept(option: str, clock: Clock) -> None:
    sink = Sink(SinkConfig(kafka={**NOBODY, option: "5"}))
    produce(sink)
    assert not sink.flush_early()
    asyncio.run(sink.close())


SPEAKS_OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "hunter2",
}


async def test_a_client_error_does_not_show_a_secret() -> None:
    sink = Sink(SinkConfig(kafka={**NOBODY, **SPEAKS_OAUTH}))
    with pytest.raises(SetupError, match=r"Unrecognized sasl\.oauthbearer\.config") as caught:
        await sink.topics.load()
    await sink.close()
    assert "hunter2" not in str(caught.value)


def test_refused_options_do_not_show_a_secret() -> None:
    with pytest.raises(SetupError, match=r"^sink\.kafka: ") as caught:
        Sink(SinkConfig(kafka={**NOBODY, "security.protocol": "SSL", "ssl.key.pem": "hunter2"}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"compression.type": "abc"}, '"abc" for configuration property "compression.type"; see'),
        ({"compression.codec": "abc"}, 'for configuration property "compression.codec"; see'),
        ({"linger.ms": "999999999"}, '"linger.ms" value 1e+09 is outside allowed range 0..900000; see'),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"},
            "sink.kafka.ssl.ca.location: /nowhere.pem: No such file or directory; correct the path",
        ),
    ],
)
def test_refused_options_are_named_as_in_the_file(options: dict[str, str], line: str) -> None:
    with pytest.raises(SetupError, match=re.escape(line)):
        Sink(SinkConfig(kafka={**NOBODY, **options}))


async def test_absent_brokers_are_waited_for_and_the_cure_named(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgrelay.kafka.sink._METADATA_TROUBLED_S", 0)
    with pytest.raises(KafkaUnavailable, match="; start the brokers, or correct bootstrap"):
        await sink.topics.load()


@pytest.mark.parametrize(
    ("code", "waits"), [(KafkaError._TRANSPORT, True), (KafkaError._ALL_BROKERS_DOWN, False)]
)
async def test_a_broker_that_is_down_hurries_nothing_while_there_are_others(
    code: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try may reach one of these."""
    monkeypatch.setattr("pgrelay.kafka.sink._METADATA_TROUBLED_S", 0)
    kafka = FakeProducer()
    sink, answer = sink_of(kafka), kafka.list_topics
    silent = iter(range(2))

    def list_topics(only: str | None, timeout_s: float) -> object:
        if next(silent, None) is not None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return answer(only, timeout_s)

    monkeypatch.setattr(kafka, "list_topics", list_topics)
    sink.failures.on_error(KafkaError(code, "b:9092/1: refused"))
    with contextlib.nullcontext() if waits else pytest.raises(KafkaUnavailable, match="b:9092/1: refused"):
        await sink.topics.load()


async def test_the_error_for_a_record_that_can_not_be_published_names_its_topic(sink: Sink) -> None:
    with pytest.raises(
        RecordRefused, match=r"^a record of topic app\.schema with key k1 can't be delivered: "
    ) as caught:
        await sink.publish([("app.schema", b"k1", b"x" * TOO_LARGE, None, BY_KEY)])
    assert caught.value.topic == "app.schema"


HEADERS: list[Headers | None] = [
    None,
    [],
    [("op", b"c")],
    [("k", b"x" * 63)],
    [("k", b"x" * 64)],
    [("n" * 64, b"x" * 8_191), ("m", b"x" * 8_192), ("none", None)],
]


@pytest.mark.parametrize("key", [None, b"", b"k" * 1_000], ids=["no key", "empty key", "key"])
@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: str(headers)[:16])
def test_record_size_equals_the_producers_limit_to_the_byte(key: bytes | None, headers: Headers) -> None:
    """The producer must accept what it lets pass, and must refuse what it sets aside."""
    sink = Sink(SinkConfig(kafka={**NOBODY, "message.max.bytes": "30000"}))
    value = b"x" * (30_000 - record_size(key, b"", headers))
    delivery = sink.delivery(InFlight(None, 1), 1)
    assert sink.produce([("t", key, value, headers, BY_KEY)], 0, delivery) == 1
    with pytest.raises(RecordRefused):
        sink.produce([("t", key, value + b"x", headers, BY_KEY)], 0, delivery)
    asyncio.run(sink.close())


@pytest.mark.parametrize("make", [lambda: Sink(SinkConfig(kafka=NOBODY)), lambda: transactional_sink()])
async def test_a_closed_sink_is_freed(make: Callable[[], Sink]) -> None:
    with gc_disabled():
        before = librdkafka_threads()
        sink = make()
        assert librdkafka_threads() - before
        closed = weakref.ref(sink)
        await sink.close()
        del sink
        # A thread that was joined is still listed for an instant.
        await eventually(lambda: librdkafka_threads() <= before, "librdkafka's threads to end")
        assert closed() is None


async def poll_after_a_refusal(sink: Sink) -> None:
    sink.failures.on_refused(KafkaError(KafkaError._TIMED_OUT), Message(topic="app.t"), 1)
    await asyncio.to_thread(sink.poll)


async def poll_after_a_purge(sink: Sink) -> None:
    sink.failures.on_refused(KafkaError(KafkaError._PURGE_QUEUE), Message(topic="app.t"), 1)
    sink.poll()


@pytest.mark.parametrize(
    ("make", "fail"),
    [
        (lambda: Sink(SinkConfig(kafka=NOBODY)), lambda sink: sink.topics.load()),
        (lambda: Sink(SinkConfig(kafka=NOBODY)), poll_after_a_refusal),
        (lambda: transactional_sink(), poll_after_a_purge),
    ],
    ids=["connecting", "a refusal", "a purge"],
)
async def test_a_closed_sink_is_freed_while_its_error_lives(
    make: Callable[[], Sink],
    fail: Callable[[Sink], Coroutine[None, None, None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error lives on in the session's task, until the next session replaces it."""
    monkeypatch.setattr("pgrelay.kafka.sink._METADATA_TROUBLED_S", 0)
    with gc_disabled():
        before = librdkafka_threads()
        sink = make()
        closed = weakref.ref(sink)
        failing = asyncio.create_task(fail(sink))
        await asyncio.wait([failing])
        error = failing.exception()
        assert isinstance(error, KafkaUnavailable)
        assert librdkafka_threads() - before
        await sink.close(error)
        # The Python thread in which the call failed may be the last to release the client.
        await eventually(lambda: librdkafka_threads() <= before, "librdkafka's threads to end")
        del sink
        assert closed() is None


async def test_reports_after_a_refusal_are_processed_once_it_was_raised() -> None:
    """Otherwise the acknowledged records before it would not be confirmed."""
    kafka = FakeProducer()
    sink, inflight = sink_of(kafka), InFlight(None, 1)
    refused = KafkaError.MSG_SIZE_TOO_LARGE
    kafka.answers = iter([refused, None, refused, None])
    assert sink.produce([record("app.t")] * 4, 0, sink.delivery(inflight, 1)) == 4
    with pytest.raises(RecordRefused):
        await sink.drain(lambda: sink.in_queue > 0, 10)
    assert inflight.acknowledged == 0
    assert await sink.drain(lambda: sink.in_queue > 0, 10)
    assert inflight.acknowledged == 2
    with pytest.raises(RecordRefused):
        sink.poll()


def test_an_acknowledgement_ends_the_problem() -> None:
    kafka = FakeProducer()
    sink = sink_of(kafka)
    sink.failures.on_error(KafkaError(KafkaError._TRANSPORT))
    produce(sink)
    assert not sink.take_acknowledged()
    assert sink.failures.problem is not None
    kafka.answer()
    sink.poll()
    assert sink.take_acknowledged()
    assert sink.failures.problem is None
    assert not sink.take_acknowledged()


def test_a_batch_is_judged_once_all_of_it_is_reported() -> None:
    """Confluent's client lets other threads run between two reports."""
    kafka = FakeProducer()
    sink = sink_of(kafka)

    def another_thread_polls() -> None:
        assert sink.poll() == 0, "it has no report, and no verdict"

    batch: list[Record] = [record("app.t"), ("app.t", None, b"v", None, BY_KEY)]
    assert sink.produce(batch, 0, sink.delivery(InFlight(None, 2), 1)) == 2
    kafka.answer(KafkaError.INVALID_RECORD)
    kafka.events.append(another_thread_polls)
    kafka.answer(KafkaError.INVALID_RECORD)
    with pytest.raises(RecordRefused, match="a compacted topic accepts no record without a key"):
        sink.poll()
    assert kafka.calls == ["poll", "poll"]


def test_the_reason_why_the_producer_has_stopped_is_the_refused_record() -> None:
    """The report on it comes after the error that stops the producer, and after those on dropped records."""
    kafka = FakeProducer(waits=2)
    sink = sink_of(kafka)
    produce(sink, "app.other")
    produce(sink, "app.t")
    kafka.answer(KafkaError._PURGE_QUEUE)
    kafka.fail(KafkaError._GAPLESS_GUARANTEE)
    kafka.answers = iter([KafkaError.MSG_SIZE_TOO_LARGE])
    with pytest.raises(RecordRefused, match=r"a record of topic app\.t.* can't be delivered"):
        sink.poll()
    assert kafka.calls == ["poll"] * 3


def test_a_producer_that_has_stopped_for_another_reason_is_not_waited_for() -> None:
    kafka = FakeProducer()
    sink = sink_of(kafka)
    produce(sink)
    kafka.fail(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(SetupError, match=r"^Kafka does not let us produce: "):
        sink.poll()
    assert kafka.calls == ["poll"]
