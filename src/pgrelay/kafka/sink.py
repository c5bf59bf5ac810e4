"""The Kafka producer: records in, acknowledgements out.

Every record has a delivery report, and a transaction is done when all of its records have a successful one:
the report on the last record alone could be one although the broker refused the record before it. The
producer is idempotent with acks=all. It retries for ever inside librdkafka, in order, and gives up no record
because of time. What Kafka refuses for good becomes an error that `poll` raises. Source: librdkafka's
CONFIGURATION.md and "Introduction to librdkafka", "Message reliability".
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from pgrelay.config import SinkConfig
from pgrelay.config.secrets import mask_complaint
from pgrelay.encode.records import Record, record_size
from pgrelay.errors import KafkaUnavailable, PgrelayError, SetupError
from pgrelay.handover import Delivery, Untaken, hand_over
from pgrelay.kafka.closing import clear_frames, close_clients
from pgrelay.kafka.errors import (
    DESYNCHRONIZED,
    PURGED,
    UNAUTHORIZED,
    UNKNOWN,
    UNTRUSTED,
    delivery_error,
    denial,
    denied,
    desynchronized,
    oversized,
    refused_options,
    unreached,
    what_it_says,
)
from pgrelay.kafka.known_topics import KnownTopics
from pgrelay.kafka.log import quiet_log
from pgrelay.kafka.producer_options import FIXED, GAPLESS, LINGERING, defaults_for, largest_record
from pgrelay.kafka.refused_batch import RefusedBatch
from pgrelay.kafka.reports import take_reports
from pgrelay.kafka.tries import tries
from pgrelay.progress import InFlight

_METADATA_TROUBLED_S: Final = 3.0
_METADATA_TIMEOUT_S: Final = 10.0
_FULL_RETRY_S: Final = 0.01
_ANSWER_S: Final = 0.1
_HURRY_S: Final = 0.001
# How long the report on a refused record is waited for, once the producer or its transaction has failed.
REPORT_S: Final = 0.1
REPORT_TRIES: Final = 10
_HURRY_AGAIN_S: Final = 0.01

# What librdkafka adds to an error text. It differs each time, and would look like something new.
_PARTICULARS: Final = re.compile(r" \(after \d+ms in state [^()]*(\(s\)[^()]*)?\)")


class Sink:
    """One producer, and the topics that it knows of.

    `problem` is the last error that librdkafka reported since `problem` was cleared.
    """

    def __init__(self, config: SinkConfig, more: Mapping[str, object] = GAPLESS) -> None:
        """`more`: options of librdkafka that a kind of sink needs; by default those of at least once."""
        self._config = config
        self._failure: PgrelayError | None = None
        self._refused_batch: RefusedBatch | None = None
        # How many calls take in reports now, each in a thread of its own.
        self._serving, self._serving_lock = 0, Lock()
        self.shut_out = False  # Kafka does not let us in, or we do not trust it: no report will come
        self.problem: str | None = None
        self._failures = 0
        self._lingers = not LINGERING.isdisjoint(config.kafka)
        self._handed_over = 0
        self._hurried, self._hurry_due = 0, 0.0
        self._reported = 0
        common: dict[str, Any] = {**config.kafka, "error_cb": self._complain}
        log = quiet_log()
        ours = defaults_for(config.kafka)
        try:
            self._producer = Producer({**ours, **common, **FIXED, **more}, logger=log)
            self._admin = AdminClient(common, logger=log)
        except (KafkaException, ValueError, TypeError) as error:
            # Not `from error`: a traceback would show its text.
            raise refused_options(error, config.kafka) from None
        self.topics = KnownTopics(config, self._admin, self._metadata)

    def _complain(self, error: KafkaError) -> None:
        text = mask_complaint(_PARTICULARS.sub("", error.str()), self._config.kafka)
        untrusted = error.code() == KafkaError._SSL and UNTRUSTED in text
        refused = denied(error)
        self.shut_out = self.shut_out or untrusted or (refused and error.code() in UNKNOWN)
        if refused:
            self._fail(denial(text))
        elif untrusted:
            self._fail(
                SetupError(
                    f"Kafka's certificate is not trusted: {text}; correct the ssl.* options, or the host"
                )
            )
        elif self.problem is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.problem = text

    def _fail(self, error: PgrelayError) -> None:
        self._failures += 1
        self._failure = self._failure or error

    @property
    def failed(self) -> bool:
        """A record was refused for good, or we are; `poll` raises the reason once it is known."""
        return self._failure is not None or self._refused_batch is not None

    @property
    def in_queue(self) -> int:
        """Records between `produce` and their report."""
        return len(self._producer)

    def poll(self) -> int:
        """Take in the reports that have come. Returns how many events. Raises the error of a refusal."""
        return self._serve(self._producer.poll, 0)

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
        self._serve(self._producer.flush, _HURRY_S)
        return True

    def _serve(
        self, serve: Callable[[float], int], timeout_s: float, known: PgrelayError | None = None
    ) -> int:
        """Take in reports by librdkafka's `poll` or `flush`. Raises what has failed, unless it is `known`."""
        events, fatal = self._take(serve, timeout_s)
        if fatal is not None:
            for _ in range(REPORT_TRIES if fatal.code() == KafkaError._GAPLESS_GUARANTEE else 0):
                if self._failure is None:
                    self._take(self._producer.poll, REPORT_S)  # the reports on what was refused come after it
            raise self._failure or self._lost(fatal)
        if self._failure is not None and self._failure is not known:
            raise self._failure
        return events

    def _take(self, serve: Callable[[float], int], timeout_s: float) -> tuple[int, KafkaError | None]:
        """Take in reports. Returns how many events, and the error if one is fatal to the producer."""
        with self._serving_lock:
            self._serving += 1
        events, fatal = 0, None
        try:
            events = take_reports(serve, timeout_s)
        except KafkaException as error:
            # The client raises such an error, and does not pass it to `error_cb`.
            fatal = error.args[0]
        finally:
            with self._serving_lock:
                self._serving -= 1
                # Another thread may be in the middle of a batch's reports.
                if self._serving == 0:
                    self._judge()
        return events, fatal

    def _lost(self, error: KafkaError) -> PgrelayError:
        """The error for a producer that can no longer be used."""
        if error.code() in UNAUTHORIZED:
            # The client raises this refusal, which is fatal to it; others come by `error_cb`.
            return SetupError(
                f"Kafka does not let us produce: {error.str()}; grant WRITE on pgrelay's topics, and before "
                "Kafka 3.0 also IDEMPOTENT_WRITE on the cluster"
            )
        lost = f"the producer's identity is lost: {error.str()}"
        return KafkaUnavailable(f"{lost}: {DESYNCHRONIZED}" if desynchronized(error) else lost)

    def take_acknowledged(self) -> bool:
        """Whether any record was acknowledged since the last call."""
        # librdkafka's own events are in its queue too, so this may count too few for a while.
        reported = self._handed_over - self.in_queue
        if reported <= self._reported:
            return False
        self._reported = reported
        return True

    def take_failures(self) -> int:
        """How many records were refused for good since the last call."""
        failures = self._failures
        self._failures = 0
        return failures

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        return Delivery(inflight, commit_lsn, self.refused)

    def refused(self, error: KafkaError, message: Message, commit_lsn: int) -> None:
        """Note that a record was refused for good."""
        if error.code() in PURGED:
            return  # what the producer has failed by is raised by itself
        self._failures += 1
        if self._failure is None:
            self._refused_batch = self._refused_batch or RefusedBatch()
            self._refused_batch.add(error, message, commit_lsn)

    def _judge(self) -> None:
        """Once all reports of a refused batch are here: what has failed is what refused it."""
        if self._refused_batch is not None:
            self._failure = self._failure or self._refused_batch.reason()
            self._refused_batch = None

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
        raise self._behind(error, self._untaken(records[index], error, delivery.commit_lsn)) from reason

    def _untaken(self, record: Record, error: KafkaError, commit_lsn: int) -> PgrelayError:
        topic, key, value, headers, _ = record
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            # In the words of librdkafka it would be the broker that refuses.
            size = record_size(key, value or b"", headers)
            return oversized(topic, commit_lsn, key, size, largest_record(self._config.kafka))
        return delivery_error(error, topic, commit_lsn, key)

    def _behind(self, reason: KafkaError, failure: PgrelayError) -> PgrelayError:
        """What is behind librdkafka's refusal to take a record: the `failure`, unless something says more."""
        if reason.code() == KafkaError._FATAL:
            self.poll()  # raises what was fatal
        return failure

    async def publish(self, records: Sequence[Record]) -> None:
        """Send records and return once all are acknowledged, however long that takes.

        Raises the error of a refusal, even of another record.
        """
        sent = InFlight(None)
        delivery = Delivery(sent, 0, self.refused)
        for record in records:
            await self._enqueue(record, delivery)
        while sent.acknowledged < len(records):
            # The session's loop polls too, but rests in between: here something waits for the answer.
            await self._await_report(_ANSWER_S)

    async def _await_report(self, timeout_s: float, known: PgrelayError | None = None) -> None:
        """Take in what comes within a time, like `_serve`; no record lingers meanwhile."""
        serve = self._producer.flush if self.in_queue else self._producer.poll
        await asyncio.to_thread(self._serve, serve, timeout_s, known)

    async def _enqueue(self, record: Record, delivery: Delivery) -> None:
        """Hand over one record, once there is room for it; somebody must `poll` meanwhile."""
        while True:
            if self.produce([record], 0, delivery):
                return
            await asyncio.sleep(_FULL_RETRY_S)

    async def connect(self) -> None:
        """Return once the cluster has named its topics. Raises KafkaUnavailable if nobody answers."""
        await self.topics.learn()

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
            troubled = self.problem is not None
            if loop.time() - began > (_METADATA_TROUBLED_S if troubled else _METADATA_TIMEOUT_S):
                raise unreached(self.problem or said)

    async def drain(self, step: Callable[[], bool], timeout_s: float) -> bool:
        """Take `step` after `step`, and reports in between, until it returns false; false if time ran out.

        Raises what fails meanwhile. What had failed before was raised already, and must not keep us from
        learning what else Kafka took.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        known = self._failure
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
        clear_frames(after)
        clear_frames(self._failure)
        # Their callbacks refer to us: not dropped here, the clients would live until cycles are collected.
        clients: list[Any] = [self._producer, self._admin]
        del self._producer, self._admin, self.topics
        await asyncio.to_thread(close_clients, clients)
