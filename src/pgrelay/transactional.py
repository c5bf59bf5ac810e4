"""The producer for exactly-once delivery: records and the position they reach, in one Kafka transaction.

Readers with isolation.level=read_committed see both or neither. The position is a record in the offsets
topic, which is compacted and keeps one for each cluster, database and slot; after a crash it tells what was
delivered, whatever Postgres was told. The transactional.id is made of the same three, so that initialising it
fences a relay that still believes in itself, and aborts what that one left open. Source: librdkafka's
"Introduction to librdkafka", "Transactional producer", and KIP-98.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from pgrelay.config import Sink as SinkConfig
from pgrelay.encode.records import Record
from pgrelay.errors import GapError, KafkaUnavailable, PgrelayError, SetupError
from pgrelay.progress import InFlight
from pgrelay.sink import Delivery, Sink, delivery_error

# librdkafka's own default, in milliseconds.
_TRANSACTION_TIMEOUT: Final = 60_000

# How long one try of a transactional call takes at most: no stop waits longer for the thread that it is on.
_TRY_S: Final = 1.0
_RECOVERY_TIMEOUT_S: Final = 10.0

_READER: Final[Mapping[str, Any]] = {
    "group.id": "pgrelay",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # A broker holds back the news that there is nothing more, and a start waits for it.
    "fetch.wait.max.ms": 10,
}

_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_CURES: Final[Mapping[int, str]] = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant WRITE and DESCRIBE on TransactionalId pgrelay-*",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "transaction.timeout.ms in sink.kafka is more than the brokers' transaction.max.timeout.ms"
    ),
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose position it is."""

    systemid: str
    db: str
    slot: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """Every transaction that ends at `lsn` or before is in Kafka.

    Of a transaction too large for one Kafka transaction, so are the records below `seq`, if it commits at
    `commit_lsn`.
    """

    lsn: int
    commit_lsn: int | None = None
    seq: int | None = None


class TransactionalSink(Sink):
    """A sink whose records become visible at `commit`. Reports still come, for what is refused."""

    def __init__(self, config: SinkConfig, identity: Identity, offsets_topic: str) -> None:
        name = f"pgrelay-{identity.systemid}-{identity.db}-{identity.slot}"
        super().__init__(config, {"transactional.id": name})
        self._offsets_topic = offsets_topic
        self._key = json.dumps(asdict(identity), separators=(",", ":")).encode()
        self._identity = identity
        self._begun = False
        self._calling = False
        # After so long brokers abort a transaction.
        self.timeout_s = int(config.kafka.get("transaction.timeout.ms", _TRANSACTION_TIMEOUT)) / 1000

    def delivery(self, inflight: InFlight, commit_lsn: int) -> Delivery:
        return Delivery(InFlight(None), commit_lsn, self._fail)

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        self._begin()
        return super().produce(records, start, delivery)

    async def publish(self, records: Sequence[Record]) -> None:
        self._begin()
        await super().publish(records)

    def _poll(self, timeout_s: float) -> int:
        # A transactional call serves the reports itself: two threads at it would fight for each of them.
        return super()._poll(timeout_s) if not self._calling else 0

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
        await self.require_topic(self._offsets_topic, lasting=True, compacted=True)
        await self._initialise()
        return self._own(await asyncio.to_thread(self._read_offsets))

    async def delivered(self) -> Delivered | None:
        """What was delivered, without a claim to it: whoever has the slot goes on. None: nothing yet.

        Raises GapError where the slot's name has a position of another cluster.
        """
        await self.connect()
        if self._offsets_topic not in self._partitions:
            return None
        return self._own(await asyncio.to_thread(self._read_offsets))

    async def _initialise(self) -> None:
        try:
            async with asyncio.timeout(_RECOVERY_TIMEOUT_S):
                await self._call(self._producer.init_transactions)
        except TimeoutError:
            raise KafkaUnavailable("Kafka does not answer a producer of transactions") from None

    def _own(self, positions: dict[bytes, bytes]) -> Delivered | None:
        mine = positions.get(self._key)
        if mine is not None:
            return Delivered(**json.loads(mine))
        for key in positions:
            other = Identity(**json.loads(key))
            if (other.db, other.slot) == (self._identity.db, self._identity.slot):
                raise GapError(
                    f"topic {self._offsets_topic} has a position of slot {other.slot} in cluster "
                    f"{other.systemid}, and source.dsn leads to {self._identity.systemid}: point it at the "
                    "old one; or choose another slot or prefix, and copy the tables anew"
                )
        return None

    def _read_offsets(self) -> dict[bytes, bytes]:
        """The latest committed record of each key.

        A reader of committed records stops at any transaction that is open, whosever it is, and does not see
        what was committed behind it: so the end is only where there are no records at all.
        """
        partition = TopicPartition(self._offsets_topic, 0, OFFSET_BEGINNING)
        consumer = Consumer({**self._config.kafka, **_READER}, logger=self._log)
        positions: dict[bytes, bytes] = {}
        try:
            consumer.assign([partition])
            while (message := consumer.poll(_RECOVERY_TIMEOUT_S)) is not None:
                error = message.error()
                if error is None:
                    positions[message.key() or b""] = message.value() or b""
                elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    pass  # librdkafka looks for the group's coordinator, and we have nothing to ask it
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise SetupError(
                        f"Kafka does not let us read topic {self._offsets_topic}: {error.str()}; "
                        "grant READ on it"
                    )
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaUnavailable(f"topic {self._offsets_topic} can't be read: {error.str()}")
                elif (message.offset() or 0) >= consumer.get_watermark_offsets(partition, cached=True)[1]:
                    return positions
        finally:
            consumer.close()
        raise KafkaUnavailable(
            f"topic {self._offsets_topic} can't be read to its end: Kafka does not answer, or another relay "
            "has a transaction open"
        )

    async def commit(self, position: Delivered) -> None:
        """Commit what was produced, together with the position."""
        self._begin()
        value = json.dumps(asdict(position), separators=(",", ":")).encode()
        await self._enqueue((self._offsets_topic, self._key, value, None, 0), self._report_failure)
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
    return delivery_error(error, "of this transaction", 0)
