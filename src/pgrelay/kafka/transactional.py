"""The producer for exactly-once delivery: records and the position they reach, in one Kafka transaction.

Readers with isolation.level=read_committed see both or neither. The position is a record in the offsets
topic; after a crash it tells what was delivered. The transactional.id has the same three names as the
position's key. So initialising it fences a relay that still believes that it has the slot, and aborts what
that relay left open. Source: librdkafka's "Introduction to librdkafka", "Transactional producer", and KIP-98.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import SinkConfig
from pgrelay.encode.records import Record
from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.handover import Delivery
from pgrelay.kafka.delivery_errors import GONE, GONE_CURE, POISON, PURGED, desync_meaning
from pgrelay.kafka.errors import UNAUTHORIZED, denied_error, is_denied
from pgrelay.kafka.offsets import Offsets, Position
from pgrelay.kafka.producer_options import transaction_timeout_ms
from pgrelay.kafka.sink import LATE_REPORTS_S, MakeClients, Sink, librdkafka
from pgrelay.progress import InFlight

# How long one try of a transactional call may take, and so how long a stop waits for its thread.
_TRY_S: Final = 1.0
_RECOVERY_TIMEOUT_S: Final = 10.0
_CALL_REST_S: Final = 0.01

# Brokers send these to a producer if another one was initialised, and also if its transaction timed out.
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_CURES: Final[Mapping[int, str]] = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant WRITE and DESCRIBE on TransactionalId pgrelay-*",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "lower transaction.timeout.ms in sink.kafka to the brokers' transaction.max.timeout.ms or less"
    ),
}


class TransactionalSink(Sink):
    """A sink whose records become visible at `commit`. Its delivery reports only say what Kafka lacks."""

    # By these a broker refuses records of a failed transaction; the transaction itself has the reason.
    _symptoms = PURGED | _FENCED | {KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER}

    def __init__(
        self, config: SinkConfig, offsets: Offsets, *, make_clients: MakeClients = librdkafka
    ) -> None:
        of = offsets.identity
        identity = {"transactional.id": f"pgrelay-{of.systemid}-{of.db}-{of.slot}"}
        super().__init__(config, identity, make_clients=make_clients)
        self._offsets = offsets
        self._calling = False
        # When the open transaction began, by the monotonic clock; None if none is open.
        self._began_at: float | None = None
        self.timeout_s = transaction_timeout_ms(config.kafka) / 1000

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        return Delivery(InFlight(None), commit_lsn, self.failures.on_refused)

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        if self._began_at is None:
            try:
                self._producer.begin_transaction()
            except KafkaException as error:
                raise self._call_error(error.args[0]) from error
            self._began_at = time.monotonic()
        return super().produce(records, start, delivery)

    def _take_in(
        self, call: Callable[[float], int], timeout_s: float, known: PgrelayError | None = None
    ) -> int:
        if self._calling:
            # The call takes in the reports itself: a second thread would compete for them.
            time.sleep(min(timeout_s, _CALL_REST_S))
            return 0
        events = super()._take_in(call, timeout_s, known)
        if (symptom := self.failures.symptom) is not None:
            # A transaction's failure is known to librdkafka at once, its reports only later.
            own = self._open_transaction_error()
            raise self._fail_transaction(
                self._timeout_error() or symptom if own is None else self._call_error(own)
            )
        return events

    def _fail_transaction(self, failure: PgrelayError) -> PgrelayError:
        """Keep a transaction's error. Returns instead that of a refused record, if any: it names a topic."""
        self.failures.transaction_error = failure
        late = isinstance(failure, RecordRefused)
        return self._reason_or(failure, (0, *LATE_REPORTS_S) if late else (0,))

    def _open_transaction_error(self) -> KafkaError | None:
        """Why the open transaction has failed; None if it has not."""
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            # Refused, since one is open: with that one's own error, if it has failed.
            reason: KafkaError = error.args[0]
        else:
            return None
        return None if reason.code() == KafkaError._STATE else reason

    def _call_error(self, error: KafkaError) -> PgrelayError:
        if error.code() not in _FENCED:
            return _transaction_error(error)
        return self._timeout_error() or KafkaUnavailable(
            "the producer was fenced: another relay of this slot has taken over, or the brokers aborted a "
            f"Kafka transaction that was open for longer than {self._limit()}"
        )

    def _timeout_error(self) -> PgrelayError | None:
        """The error for a transaction that was open for longer than brokers allow; None if it was not."""
        open_s = 0.0 if self._began_at is None else time.monotonic() - self._began_at
        if open_s <= self.timeout_s:
            return None
        return KafkaUnavailable(
            f"a Kafka transaction was open for {open_s:.0f} s, and brokers abort one after {self._limit()}: "
            "Kafka was slow, or another relay of this slot has taken over; raise that limit if Kafka is slow"
        )

    def _limit(self) -> str:
        return f"transaction.timeout.ms in sink.kafka, {self.timeout_s * 1000:.0f}"

    async def recover(self) -> Position | None:
        """Fence every other producer of this identity, and read what was delivered; None if nothing yet.

        Raises GapError if a slot of that name has a position in another cluster.
        """
        await self.topics.require(self._offsets.topic, "offsets")
        await self._initialise()
        return await self._offsets.read()

    async def _initialise(self) -> None:
        try:
            async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                await self._call(self._producer.init_transactions)
        except TimeoutError:
            raise KafkaUnavailable("Kafka does not answer the transactional producer") from None

    async def commit(self, position: Position) -> None:
        """Commit what was produced, together with the position."""
        await self._enqueue(self._offsets.record(position), self.delivery(InFlight(None), 0))
        await self._call(self._commit)
        self._began_at = None

    def _commit(self, timeout_s: float) -> None:
        # The client's own commit waits for the reports, too, but ignores that a record was passed over.
        if self._producer.flush(timeout_s / 2):
            # If the transaction has failed, what is left may never be sent.
            raise KafkaException(
                self._open_transaction_error() or KafkaError(KafkaError._TIMED_OUT, retriable=True)
            )
        self.failures.raise_unless(None)
        self._producer.commit_transaction(timeout_s / 2)

    async def _call(self, step: Callable[[float], None]) -> None:
        """Make a transactional call in a thread; repeat it while librdkafka calls its error retriable."""
        while True:
            self._calling = True
            try:
                _, error = await asyncio.to_thread(self._try, step, _TRY_S)
            finally:
                self._calling = False
            if error is None:
                return
            if not error.retriable():
                raise self._fail_transaction(self._call_error(error))
            if self.failures.reason is not None:
                # To librdkafka, a broker that refuses us is unreachable: the call would be repeated for ever.
                raise self._fail_transaction(self.failures.reason)


def _transaction_error(error: KafkaError) -> PgrelayError:
    """The error for a failed call. Nothing is lost: the next producer of the id aborts what is open."""
    if error.code() in _CURES:
        return SetupError(f"Kafka refuses transactions: {error.str()}; {_CURES[error.code()]}")
    failed = f"a Kafka transaction failed: {error.str()}"
    if (meaning := desync_meaning(error)) is not None:
        return KafkaUnavailable(f"{failed}: {meaning}")
    if error.code() in POISON:
        return RecordRefused(f"{failed}; {POISON[error.code()]}")
    if error.code() in GONE:
        return KafkaUnavailable(f"{failed}: a topic is gone: {GONE_CURE}")
    if error.code() in UNAUTHORIZED:
        return SetupError(f"{failed}; grant WRITE and DESCRIBE on the topics that pgrelay check names")
    if is_denied(error):
        return denied_error(error.str())
    return KafkaUnavailable(failed)
