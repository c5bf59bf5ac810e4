"""The producer for exactly-once delivery: records and the position they reach, in one Kafka transaction.

Readers with isolation.level=read_committed see both or neither. The position is a record in the offsets
topic; after a crash it tells what was delivered. The transactional.id is made of the same three names as the
position's key, so that initialising it fences a relay that still believes in itself, and aborts what that one
left open. Source: librdkafka's "Introduction to librdkafka", "Transactional producer", and KIP-98.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import Sink as SinkConfig
from pgrelay.encode.records import Record
from pgrelay.errors import KafkaUnavailable, PgrelayError, RecordRefused, SetupError
from pgrelay.handover import Delivery
from pgrelay.kafka.errors import DENIED, POISON
from pgrelay.kafka.offsets import Delivered, Offsets
from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight

# librdkafka's own default, in milliseconds.
_TRANSACTION_TIMEOUT: Final = 60_000

# How long one try of a transactional call takes at most: no stop waits longer for the thread that it is on.
_TRY_S: Final = 1.0
_RECOVERY_TIMEOUT_S: Final = 10.0
_CALL_REST_S: Final = 0.01

_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_CURES: Final[Mapping[int, str]] = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant WRITE and DESCRIBE on TransactionalId pgrelay-*",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "transaction.timeout.ms in sink.kafka is more than the brokers' transaction.max.timeout.ms"
    ),
}


class TransactionalSink(Sink):
    """A sink whose records become visible at `commit`. Reports still come, for what is refused."""

    def __init__(self, config: SinkConfig, offsets: Offsets) -> None:
        of = offsets.identity
        super().__init__(config, {"transactional.id": f"pgrelay-{of.systemid}-{of.db}-{of.slot}"})
        self._offsets = offsets
        self._begun = False
        self._calling = False
        # After so long brokers abort a transaction.
        self.timeout_s = int(config.kafka.get("transaction.timeout.ms", _TRANSACTION_TIMEOUT)) / 1000

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        return Delivery(InFlight(None), commit_lsn, self.refused)

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        self._begin()
        return super().produce(records, start, delivery)

    def _serve(self, serve: Callable[[float], int], timeout_s: float) -> int:
        # A transactional call serves the reports itself: two threads at it would fight for each of them.
        return super()._serve(serve, timeout_s) if not self._calling else 0

    async def _await_report(self, timeout_s: float) -> None:
        if self._calling:
            await asyncio.sleep(min(timeout_s, _CALL_REST_S))
        else:
            await super()._await_report(timeout_s)

    def _lost(self, error: KafkaError) -> PgrelayError:
        return _transaction_error(error)

    def _begin(self) -> None:
        if not self._begun:
            try:
                self._producer.begin_transaction()
            except KafkaException as error:
                raise _transaction_error(error.args[0]) from error
            self._begun = True

    async def recover(self) -> Delivered | None:
        """Fence every other producer of this identity, and read what was delivered; None: nothing yet.

        Raises GapError where the slot's name has a position of another cluster.
        """
        await self.require_topic(self._offsets.topic, lasting=True, compacted=True)
        await self._initialise()
        return await asyncio.to_thread(self._offsets.read)

    async def _initialise(self) -> None:
        try:
            async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                await self._call(self._producer.init_transactions)
        except TimeoutError:
            raise KafkaUnavailable("Kafka does not answer a producer of transactions") from None

    async def commit(self, position: Delivered) -> None:
        """Commit what was produced, together with the position."""
        await self._enqueue(self._offsets.record(position), self.delivery(InFlight(None), 0))
        await self._call(self._producer.commit_transaction)
        self._begun = False

    async def _call(self, step: Callable[[float], None]) -> None:
        """One transactional call, off the loop, again and again while librdkafka says that it may be."""
        while True:
            self._calling = True
            try:
                await asyncio.to_thread(step, _TRY_S)
            except KafkaException as error:
                self._calling = False
                reason: KafkaError = error.args[0]
                if not reason.retriable():
                    # The report on the record that was refused says more, and which topic's it was.
                    self.poll()
                    raise _transaction_error(reason) from error
            else:
                return
            finally:
                self._calling = False


def _transaction_error(error: KafkaError) -> PgrelayError:
    """Whatever fails, the next producer of the same id aborts what is open, and goes on from the position."""
    if error.code() in _FENCED:
        return KafkaUnavailable("another relay of this slot has taken over (the producer was fenced)")
    if error.code() in _CURES:
        return SetupError(f"Kafka refuses transactions: {error.str()}; {_CURES[error.code()]}")
    failed = f"a Kafka transaction failed: {error.str()}"
    if error.code() in POISON:
        return RecordRefused(f"{failed}; {POISON[error.code()]}")
    if error.code() in DENIED:
        return SetupError(f"{failed}; grant WRITE on all topics")
    return KafkaUnavailable(failed)
