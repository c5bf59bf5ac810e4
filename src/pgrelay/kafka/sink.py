"""The Kafka producer: records in, acknowledgements out.

Every record has a delivery report, and a transaction is done when all of its records have one with an offset:
the report on the last record alone could be one although the broker refused the record before it. The
producer is idempotent with acks=all. It retries for ever inside librdkafka, in order, and gives up no record
because of time. What Kafka refuses for good becomes an error that `poll` raises. Source: librdkafka's
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
from pgrelay.handover import Delivery, Untaken, hand_over
from pgrelay.kafka.closing import clear_frames, close_clients
from pgrelay.kafka.delivery_errors import PURGED, delivery_error, desynchronized, oversized
from pgrelay.kafka.errors import UNAUTHORIZED, refused_options, unreached, what_it_says
from pgrelay.kafka.failures import Failures
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.log import quiet_log
from pgrelay.kafka.producer_options import FIXED, GAPLESS, defaults_for, largest_record
from pgrelay.kafka.reports import take_reports
from pgrelay.kafka.tries import tries
from pgrelay.progress import InFlight

_METADATA_TROUBLED_S: Final = 3.0
_METADATA_TIMEOUT_S: Final = 10.0
_FULL_RETRY_S: Final = 0.01
_ANSWER_S: Final = 0.1
_HURRY_S: Final = 0.001
# How long the report on a refused record is waited for, once the producer or its transaction has failed.
LATE_REPORTS_S: Final = (0.1,) * 10
_HURRY_AGAIN_S: Final = 0.01

# By these the producer takes no record, because it, or its transaction, has failed before.
_FAILED_BEFORE: Final = frozenset({KafkaError._FATAL, KafkaError._STATE})

# Makes a producer and an admin client, each with its options; raises what librdkafka does if it refuses them.
MakeClients = Callable[[dict[str, Any], dict[str, Any]], tuple[Producer, AdminClient]]


def librdkafka(producing: dict[str, Any], asking: dict[str, Any]) -> tuple[Producer, AdminClient]:
    """The clients of a run."""
    log = quiet_log()
    return Producer(producing, logger=log), AdminClient(asking, logger=log)


class Sink:
    """One producer, the topics that it knows of, and its failures."""

    _symptoms: ClassVar[frozenset[int]] = PURGED

    def __init__(
        self,
        config: SinkConfig,
        more: Mapping[str, object] = GAPLESS,
        *,
        make_clients: MakeClients = librdkafka,
    ) -> None:
        """`more`: options of librdkafka that a kind of sink needs; by default those of at least once.

        Raises SetupError on options that librdkafka refuses.
        """
        self._config = config
        self.failures = Failures(config.kafka, self._symptoms)
        self._lingers = not LINGER_OPTIONS.isdisjoint(config.kafka)
        self._handed_over = 0
        self._hurried, self._hurry_due = 0, 0.0
        self._reported = 0
        common: dict[str, Any] = {**config.kafka, "error_cb": self.failures.complain}
        throttling = {"throttle_cb": self.failures.throttled}
        producing = {**defaults_for(config.kafka), **common, **throttling, **FIXED, **more}
        try:
            self._producer, self._admin = make_clients(producing, common)
        except (KafkaException, ValueError, TypeError) as error:
            # Not `from error`: a traceback would show its text.
            raise refused_options(error, config.kafka) from None
        self.topics = KnownTopics(config, self._admin, self._metadata)

    @property
    def in_queue(self) -> int:
        """Records between `produce` and their report."""
        return len(self._producer)

    def poll(self) -> int:
        """Take in the reports that have come. Returns how many events. Raises the error of a refusal."""
        return self._take_in(self._producer.poll, 0)

    def hurry(self) -> bool:
        """Send what is queued without lingering, unless what the last call sent is still under way.

        For when there is nothing else to do: it blocks for a millisecond at most, and returns true if it did.
        It does nothing if the configuration says how long to linger.
        """
        if self._lingers or not self.in_queue:
            return False
        now = time.monotonic()
        if self._handed_over - self.in_queue < self._hurried and now < self._hurry_due:
            return False
        self._hurried, self._hurry_due = self._handed_over, now + _HURRY_AGAIN_S
        self._take_in(self._producer.flush, _HURRY_S)
        return True

    def _take_in(
        self, call: Callable[[float], int], timeout_s: float, known: PgrelayError | None = None
    ) -> int:
        """Take in reports by librdkafka's `poll` or `flush`. Raises what has failed, unless it is `known`."""
        events, fatal = self._try(call, timeout_s)
        if fatal is not None:
            # The reports on what was refused come after it.
            late = fatal.code() == KafkaError._GAPLESS_GUARANTEE
            raise self._reason_or(self._failure_of(fatal), LATE_REPORTS_S if late else ())
        self.failures.raise_unless(known)
        return events

    def _try(self, call: Callable[[float], int | None], timeout_s: float) -> tuple[int, KafkaError | None]:
        """Make a call that takes in reports. Returns how many events, and the error if it has failed."""
        with self.failures.taking_reports():
            try:
                return take_reports(call, timeout_s) or 0, None
            except KafkaException as error:
                # The client raises an error that is fatal to the producer, and does not report it otherwise.
                return 0, error.args[0]

    def _reason_or(self, error: PgrelayError, waits_s: Sequence[float]) -> PgrelayError:
        """The reason behind an error, if it comes within these waits for reports; else the latest error."""
        for wait_s in waits_s:
            if self.failures.reason is None:
                _, fatal = self._try(self._producer.poll, wait_s)
                error = error if fatal is None else self._failure_of(fatal)
        return self.failures.reason or error

    def _failure_of(self, error: KafkaError) -> PgrelayError:
        """The error for a call that has failed: the producer can no longer be used."""
        if error.code() in UNAUTHORIZED:
            # The client raises this refusal, which is fatal to it; others come by `error_cb`.
            return SetupError(
                f"Kafka does not let us produce: {error.str()}; grant WRITE on pgrelay's topics, and before "
                "Kafka 3.0 also IDEMPOTENT_WRITE on the cluster"
            )
        lost = f"the producer's identity is lost: {error.str()}"
        meaning = desynchronized(error)
        return KafkaUnavailable(lost if meaning is None else f"{lost}: {meaning}")

    def take_acknowledged(self) -> bool:
        """Whether any record was acknowledged since the last call; if so, the `problem` is over."""
        # librdkafka's own events are in its queue too, so this may count too few for a while.
        reported = self._handed_over - self.in_queue
        if reported <= self._reported:
            return False
        self._reported = reported
        self.failures.acknowledged()
        return True

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        return Delivery(inflight, commit_lsn, self.failures.refused)

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        """Hand over the records from index `start`; returns the index of the first that found no room.

        Raises the error for a record that librdkafka does not take at all.
        """
        try:
            end = hand_over(self._producer.produce, records, start, delivery.report)
        except Untaken as untaken:
            index, reason = untaken.index, untaken.reason
        else:
            self._handed_over += end - start
            return end
        if not isinstance(reason, KafkaException):
            raise reason
        error: KafkaError = reason.args[0]
        failure = self._untaken(records[index], error, delivery.commit_lsn)
        if error.code() in _FAILED_BEFORE:
            self.failures.symptom = failure
            self.poll()  # raises what is behind it
        raise failure from reason

    def _untaken(self, record: Record, error: KafkaError, commit_lsn: int) -> PgrelayError:
        topic, key, value, headers, _ = record
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            # In the words of librdkafka it would be the broker that refuses.
            size = record_size(key, value or b"", headers)
            return oversized(topic, commit_lsn, key, size, largest_record(self._config.kafka))
        return delivery_error(error, topic, commit_lsn, key)

    async def publish(self, records: Sequence[Record]) -> None:
        """Send records and return once all are acknowledged, however long that takes.

        Raises the error of a refusal, even of another record.
        """
        sent = InFlight(None)
        delivery = Delivery(sent, 0, self.failures.refused)
        for record in records:
            await self._enqueue(record, delivery)
        while sent.acknowledged < len(records):
            # The session's loop polls too, but rests in between: here something waits for the answer.
            await self._await_report(_ANSWER_S)

    async def _await_report(self, timeout_s: float, known: PgrelayError | None = None) -> None:
        """Take in what comes within a time, like `_take_in`; no record lingers meanwhile."""
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
        timeouts_s = tries()
        while True:
            try:
                return await asyncio.to_thread(self._producer.list_topics, only, next(timeouts_s))
            except KafkaException as error:
                said = what_it_says(error)
            self.poll()
            most_s = _METADATA_TROUBLED_S if self.failures.all_down else _METADATA_TIMEOUT_S
            if loop.time() - began > most_s:
                raise unreached(self.failures.problem or said)

    async def drain(self, step: Callable[[], bool], timeout_s: float) -> bool:
        """Take `step` after `step`, and reports in between, until it returns false; false if time ran out.

        Raises what fails meanwhile. What had failed before was raised already, and must not keep us from
        learning what else Kafka took.
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
        """Drop what was not delivered, and so not confirmed either. The sink can't be used afterwards.

        `after`: the error that made it necessary, if any; only its text can be used afterwards.
        """
        self._producer.purge()
        # Our references must be the last: others, dropped later, would block the loop or leave threads.
        for error in (after, *self.failures.errors):
            clear_frames(error)
        # `topics` refers to us: not dropped here, the clients would live until cycles are collected.
        clients: list[Any] = [self._producer, self._admin]
        del self._producer, self._admin, self.topics
        await asyncio.to_thread(close_clients, clients)
