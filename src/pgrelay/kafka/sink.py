"""The Kafka producer: records in, acknowledgements out.

Every record has a delivery report, and a transaction is done when all of its records have one with an offset;
the report on the last record alone proves nothing about the record before it. The producer is idempotent with
acks=all. librdkafka retries for ever, in order, and gives up no record because of time. What Kafka refuses
for good becomes an error that `poll` raises. Source: librdkafka's
CONFIGURATION.md and "Introduction to librdkafka", "Message reliability".
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from pgrelay.config import SinkConfig
from pgrelay.config.kafka_options import LINGER_OPTIONS
from pgrelay.encode.records import Record, record_size
from pgrelay.errors import KafkaUnavailable, PgrelayError, SetupError
from pgrelay.handover import Delivery, ProduceError, hand_over
from pgrelay.kafka.closing import clear_frames, close_clients
from pgrelay.kafka.delivery_errors import PURGED, delivery_error, desync_meaning, oversized_error
from pgrelay.kafka.errors import UNAUTHORIZED, error_text, options_error, unreachable_error
from pgrelay.kafka.failures import Failures
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.log import librdkafka_logger
from pgrelay.kafka.producer_options import FIXED, GAPLESS, defaults_for, largest_record
from pgrelay.kafka.reports import take_reports
from pgrelay.kafka.timeouts import growing_timeouts_s
from pgrelay.progress import InFlight

_METADATA_TROUBLED_S: Final = 3.0
_METADATA_TIMEOUT_S: Final = 10.0
_FULL_RETRY_S: Final = 0.01
_ANSWER_S: Final = 0.1
_FLUSH_S: Final = 0.001
# How long to wait for the report on a refused record, once the producer or its transaction has failed.
LATE_REPORTS_S: Final = (0.1,) * 10
_FLUSH_AGAIN_S: Final = 0.01

# With these the producer accepts no record, because it, or its transaction, has already failed.
_FAILED_BEFORE: Final = frozenset({KafkaError._FATAL, KafkaError._STATE})

# Makes a producer and an admin client, each with its options; raises what librdkafka does on bad options.
MakeClients = Callable[[dict[str, Any], dict[str, Any]], tuple[Producer, AdminClient]]


def librdkafka(
    producer_options: dict[str, Any], admin_options: dict[str, Any]
) -> tuple[Producer, AdminClient]:
    """The real clients."""
    log = librdkafka_logger()
    return Producer(producer_options, logger=log), AdminClient(admin_options, logger=log)


class Sink:
    """One producer, the topics that it knows of, and its failures."""

    _symptoms: ClassVar[frozenset[int]] = PURGED

    def __init__(
        self,
        config: SinkConfig,
        extra_options: Mapping[str, object] = GAPLESS,
        *,
        make_clients: MakeClients = librdkafka,
    ) -> None:
        """`extra_options`: those that this kind of sink needs; by default those of at least once.

        Raises SetupError on options that librdkafka refuses.
        """
        self._config = config
        self.failures = Failures(config.kafka, self._symptoms)
        self._lingers = not LINGER_OPTIONS.isdisjoint(config.kafka)
        self._handed_over = 0
        self._flushed, self._flush_due = 0, 0.0
        self._reported = 0
        common: dict[str, Any] = {**config.kafka, "error_cb": self.failures.on_error}
        throttling = {"throttle_cb": self.failures.on_throttle}
        producer_options = {**defaults_for(config.kafka), **common, **throttling, **FIXED, **extra_options}
        try:
            self._producer, self._admin = make_clients(producer_options, common)
        except (KafkaException, ValueError, TypeError) as error:
            # Not `from error`: a traceback would show its text.
            raise options_error(error, config.kafka) from None
        self.topics = KnownTopics(config, self._admin, self._metadata)

    @property
    def in_queue(self) -> int:
        """The number of records between `produce` and their report."""
        return len(self._producer)

    def poll(self) -> int:
        """Take in the reports that have come; returns the number of events. Raises the error of a refusal."""
        return self._take_in(self._producer.poll, 0)

    def flush_early(self) -> bool:
        """Send what is queued without lingering, unless what the last call sent is still in flight.

        For when there is nothing else to do: blocks for a millisecond at most, and returns true if it did.
        Does nothing if the configuration says how long to linger.
        """
        if self._lingers or not self.in_queue:
            return False
        now = time.monotonic()
        if self._handed_over - self.in_queue < self._flushed and now < self._flush_due:
            return False
        self._flushed, self._flush_due = self._handed_over, now + _FLUSH_AGAIN_S
        self._take_in(self._producer.flush, _FLUSH_S)
        return True

    def _take_in(
        self, call: Callable[[float], int], timeout_s: float, known: PgrelayError | None = None
    ) -> int:
        """Take in reports by librdkafka's `poll` or `flush`. Raises a failure, unless it is `known`."""
        events, fatal = self._try(call, timeout_s)
        if fatal is not None:
            # The reports on what was refused come after it.
            late = fatal.code() == KafkaError._GAPLESS_GUARANTEE
            raise self._reason_or(self._call_error(fatal), LATE_REPORTS_S if late else ())
        self.failures.raise_unless(known)
        return events

    def _try(self, call: Callable[[float], int | None], timeout_s: float) -> tuple[int, KafkaError | None]:
        """Make a call that takes in reports. Returns the number of events, and the error if it failed."""
        with self.failures.taking_reports():
            try:
                return take_reports(call, timeout_s) or 0, None
            except KafkaException as error:
                # The client raises an error that is fatal to the producer, and reports it in no other way.
                return 0, error.args[0]

    def _reason_or(self, error: PgrelayError, waits_s: Sequence[float]) -> PgrelayError:
        """The reason behind an error, if it comes within these waits for reports; else the latest error."""
        for wait_s in waits_s:
            if self.failures.reason is None:
                _, fatal = self._try(self._producer.poll, wait_s)
                error = error if fatal is None else self._call_error(fatal)
        return self.failures.reason or error

    def _call_error(self, error: KafkaError) -> PgrelayError:
        """The error for a failed call, after which the producer can no longer be used."""
        if error.code() in UNAUTHORIZED:
            # The client raises this refusal, which is fatal to it; others come through `error_cb`.
            return SetupError(
                f"Kafka does not let us produce: {error.str()}; grant WRITE on pgrelay's topics, and before "
                "Kafka 3.0 also IDEMPOTENT_WRITE on the cluster"
            )
        lost = f"the producer's identity is lost: {error.str()}"
        meaning = desync_meaning(error)
        return KafkaUnavailable(lost if meaning is None else f"{lost}: {meaning}")

    def take_acknowledged(self) -> bool:
        """Whether any record was acknowledged since the last call; if so, the `problem` is over."""
        # librdkafka's own events are in the queue, too, so this may be too low for a while.
        reported = self._handed_over - self.in_queue
        if reported <= self._reported:
            return False
        self._reported = reported
        self.failures.clear_problem()
        return True

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        return Delivery(inflight, commit_lsn, self.failures.on_refused)

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        """Hand over the records from index `start`; returns the index of the first that found no room.

        Raises the error for a record that librdkafka does not accept at all.
        """
        try:
            end = hand_over(self._producer.produce, records, start, delivery.report)
        except ProduceError as refused:
            index, reason = refused.index, refused.reason
        else:
            self._handed_over += end - start
            return end
        if not isinstance(reason, KafkaException):
            raise reason
        error: KafkaError = reason.args[0]
        failure = self._produce_error(records[index], error, delivery.commit_lsn)
        if error.code() in _FAILED_BEFORE:
            self.failures.symptom = failure
            self.poll()  # raises the cause
        raise failure from reason

    def _produce_error(self, record: Record, error: KafkaError, commit_lsn: int) -> PgrelayError:
        topic, key, value, headers, _ = record
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            # librdkafka's text would blame the broker.
            size = record_size(key, value or b"", headers)
            return oversized_error(topic, commit_lsn, key, size, largest_record(self._config.kafka))
        return delivery_error(error, topic, commit_lsn, key)

    async def publish(self, records: Sequence[Record]) -> None:
        """Send records and return once all are acknowledged, however long that takes.

        Raises the error of any refusal, even of another record.
        """
        sent = InFlight(None)
        delivery = Delivery(sent, 0, self.failures.on_refused)
        for record in records:
            await self._enqueue(record, delivery)
        while sent.acknowledged < len(records):
            # The session's loop polls, too, but waits in between; here the answer is urgent.
            await self._await_report(_ANSWER_S)

    async def _await_report(self, timeout_s: float, known: PgrelayError | None = None) -> None:
        """Take in what comes within this time, like `_take_in`; no record lingers meanwhile."""
        call = self._producer.flush if self.in_queue else self._producer.poll
        await asyncio.to_thread(self._take_in, call, timeout_s, known)

    async def _enqueue(self, record: Record, delivery: Delivery) -> None:
        """Hand over one record, once there is room for it; somebody must `poll` meanwhile."""
        while True:
            if self.produce([record], 0, delivery):
                return
            await asyncio.sleep(_FULL_RETRY_S)

    async def _metadata(self, only: str | None) -> ClusterMetadata:
        """The metadata of every topic, or of one. Raises KafkaUnavailable if nobody answers."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        timeouts_s = growing_timeouts_s()
        while True:
            try:
                return await asyncio.to_thread(self._producer.list_topics, only, next(timeouts_s))
            except KafkaException as error:
                said = error_text(error)
            self.poll()
            timeout_s = _METADATA_TROUBLED_S if self.failures.all_brokers_down else _METADATA_TIMEOUT_S
            if loop.time() - began > timeout_s:
                raise unreachable_error(self.failures.problem or said)

    async def drain(self, step: Callable[[], bool], timeout_s: float) -> bool:
        """Call `step`, taking in reports in between, until it returns false. Returns false if time ran out.

        Raises what fails meanwhile. What had failed before has been raised already, and must not keep us from
        learning what else Kafka acknowledged.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        known = self.failures.reason
        while step():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await self._await_report(min(left, _ANSWER_S), known)
        return True

    async def close(self, after: BaseException | None = None) -> None:
        """Drop what was not delivered, and so was not confirmed. The sink can't be used afterwards.

        `after`: the error that led to this, if any; only its text can be used afterwards.
        """
        self._producer.purge()
        # Ours must be the last references: others, dropped later, would block the loop or leave threads.
        for error in (after, *self.failures.errors):
            clear_frames(error)
        # `topics` refers to us: unless it is dropped, the clients would live until cycles are collected.
        clients: list[Any] = [self._producer, self._admin]
        del self._producer, self._admin, self.topics
        await asyncio.to_thread(close_clients, clients)
