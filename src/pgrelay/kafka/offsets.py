"""The offsets topic: what Kafka has of each slot's stream, whatever Postgres was told.

It is compacted and keeps one record for each cluster, database and slot. A position is read at a start and
checked against the server. With exactly once, a relay writes its position in the Kafka transaction of the
rows; with at least once, ahead of every confirmation. What is delivered stays delivered: a record with a
lower position than one before it, such as a late one of a replaced relay, does not take the position back.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar, get_type_hints

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from pgrelay.config import SinkConfig
from pgrelay.encode.records import Record
from pgrelay.errors import RESET_CURE, GapError, KafkaUnavailable, PositionError, SetupError
from pgrelay.kafka.errors import options_error
from pgrelay.kafka.log import librdkafka_logger
from pgrelay.kafka.timeouts import growing_timeouts_s

# How long Kafka may be silent; between polls, the reader looks whether anybody still waits.
_SILENCE_S: Final = 10.0
_POLL_S: Final = 1.0
_AGAIN_S: Final = 0.1

_CONSUMER_OPTIONS: Final[Mapping[str, Any]] = {
    "group.id": "pgrelay",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # A broker holds back the answer that there is nothing more, and a start waits for that.
    "fetch.wait.max.ms": 10,
    # A position is small. Sizes in the configuration are meant for the producer, and may not fit a consumer.
    "message.max.bytes": 1_000_000,
    "fetch.max.bytes": 52_428_800,
    "receive.message.max.bytes": 100_000_000,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """The slot that a position belongs to."""

    systemid: str
    db: str
    slot: str


@dataclass(frozen=True, slots=True)
class Position:
    """Every transaction that ends at `lsn` or before is in Kafka.

    If a transaction was too large for one Kafka transaction, so are its records below `seq`; it commits at
    `commit_lsn`. `timeline` is the primary's at the time; None on a standby, whose slots are its own. Two
    servers may give a timeline the same number: `timeline_began` is the LSN at which this one branched off
    the previous one; None if unknown, and for the first. `numbering` is a digest of the settings that `seq`
    depends on; None if an earlier version wrote the position.
    """

    lsn: int
    commit_lsn: int | None = None
    seq: int | None = None
    timeline: int | None = None
    timeline_began: int | None = None
    numbering: str | None = None

    @property
    def min_wal_end(self) -> int:
        """Where WAL must end at least for this to be true: past the start of that commit, if there is one."""
        return max(self.lsn, self.commit_lsn + 1) if self.commit_lsn is not None and self.seq else self.lsn


T = TypeVar("T", Identity, Position)


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """A position as the topic has it, with its record's raw key."""

    key: bytes
    identity: Identity
    position: Position


class Offsets:
    """The position of one identity."""

    def __init__(self, config: SinkConfig, topic: str, identity: Identity) -> None:
        self.topic = topic
        self.identity = identity
        self._config = config

    def record(self, position: Position) -> Record:
        """The record that replaces the position."""
        return self.topic, _json(self.identity), _json(position), None, 0

    async def read(self) -> Position | None:
        """The position; None if there is none yet.

        Raises GapError if a slot of that name has a position in another cluster, KafkaUnavailable if the
        topic can't be read to its end, SetupError if we may not, PositionError if a record can't be parsed,
        or if a consumer refuses the options that the producer took.
        """
        kept = await self._latest()
        mine = [each.position for each in kept if each.identity == self.identity]
        if mine:
            return max(mine, key=_sort_key)
        for each in self._of_slot(kept):
            other = each.identity
            raise GapError(
                f"topic {self.topic} has a position of slot {other.slot} in cluster {other.systemid}, but "
                f"source.dsn leads to {self.identity.systemid} (if pg_upgrade took the slot along: run "
                f"pgrelay reset --keep-slot); point it at the old one, or {RESET_CURE}"
            )
        return None

    async def tombstones(self) -> list[Record]:
        """The tombstones that delete the slot's positions, of any cluster. Raises as `read`."""
        return [(self.topic, each.key, None, None, 0) for each in self._of_slot(await self._latest())]

    def _of_slot(self, kept: Iterable[StoredPosition]) -> list[StoredPosition]:
        slot = self.identity.db, self.identity.slot
        return [each for each in kept if (each.identity.db, each.identity.slot) == slot]

    async def _latest(self) -> list[StoredPosition]:
        """The furthest committed position of each key."""
        given_up = threading.Event()
        try:
            messages = await asyncio.to_thread(self._read, given_up)
        finally:
            # If cancelled: the process can't end before its threads.
            given_up.set()
        # Parsed only now: a record that is no position may have been replaced by a later one.
        return [self._stored(message) for message in messages.values()]

    def _stored(self, message: Message) -> StoredPosition:
        key = message.key() or b""
        try:
            return StoredPosition(key, _parse(Identity, key), _parse(Position, message.value() or b""))
        except (ValueError, TypeError) as error:
            raise PositionError(
                f"topic {self.topic}, partition {message.partition()}, offset {message.offset()}: not a "
                "position that this version of pgrelay can read; run the version that wrote it, or, if it is "
                "not pgrelay's, write a record with the same key and no value there"
            ) from error

    def _read(self, given_up: threading.Event) -> dict[bytes, Message]:
        """The latest committed record of each key, tombstones left out. Blocks.

        With read_committed, a consumer stops at any open transaction, whoever's it is, and does not see what
        was committed after it. So we have read everything only at the end of the log itself. How far a broker
        lets us read is no measure either: a new leader does not know at first of everything that was
        acknowledged, and until it does, it refuses to say where the log ends (KIP-207).
        """
        partition = TopicPartition(self.topic, 0, OFFSET_BEGINNING)
        consumer = self._consumer()
        latest: dict[bytes, Message] = {}
        stopped_at: int | None = None
        try:
            end = self._end(consumer, partition, given_up)
            consumer.assign([partition])
            while end is not None and (message := _next(consumer, given_up)) is not None:
                error = message.error()
                if error is None:
                    stopped_at = None
                    _keep_latest(message, latest)
                elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    pass  # librdkafka looks for the group's coordinator, and we have nothing to ask it
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise self._denied(error)
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaUnavailable(f"topic {self.topic} can't be read: {error.str()}")
                else:
                    stopped_at = message.offset() or 0
                    if stopped_at >= max(end, _readable_to(consumer, partition)):
                        return latest
        finally:
            consumer.close()
        raise self._unreadable(stopped_at)

    def _consumer(self) -> Consumer:
        try:
            return Consumer({**self._config.kafka, **_CONSUMER_OPTIONS}, logger=librdkafka_logger())
        except (KafkaException, ValueError, TypeError) as error:
            # Not from the error, whose text a traceback would show.
            refused = options_error(error, self._config.kafka)
            raise PositionError(f"topic {self.topic} can't be read: {refused}") from None

    def _end(self, consumer: Consumer, partition: TopicPartition, given_up: threading.Event) -> int | None:
        """An offset above everything that was acknowledged and committed; None if nobody knows."""
        deadline = time.monotonic() + _SILENCE_S
        timeouts_s = growing_timeouts_s()
        while not given_up.is_set() and time.monotonic() < deadline:
            try:
                known = consumer.get_watermark_offsets(partition, timeout=next(timeouts_s))
                if known is not None:
                    return known[1]
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise self._denied(error) from failure
            given_up.wait(_AGAIN_S)
        return None

    def _unreadable(self, stopped_at: int | None) -> KafkaUnavailable:
        if stopped_at is None:
            return KafkaUnavailable(f"topic {self.topic} can't be read to its end: Kafka does not answer")
        return KafkaUnavailable(
            f"topic {self.topic} can't be read past offset {stopped_at}: another relay has a transaction "
            "open there, or Kafka left one open that is over (kafka-transactions.sh find-hanging names those)"
        )

    def _denied(self, error: KafkaError) -> SetupError:
        return SetupError(f"Kafka does not let us read topic {self.topic}: {error.str()}; grant READ on it")


def _readable_to(consumer: Consumer, partition: TopicPartition) -> int:
    """The end of the log, according to the broker that we read from."""
    _, end = consumer.get_watermark_offsets(partition, cached=True) or (0, 0)
    return end


def _next(consumer: Consumer, given_up: threading.Event) -> Message | None:
    """The next message; None if Kafka is silent, or nobody waits for it any more."""
    deadline = time.monotonic() + _SILENCE_S
    while not given_up.is_set() and time.monotonic() < deadline:
        if (message := consumer.poll(_POLL_S)) is not None:
            return message
    return None


def _sort_key(position: Position) -> tuple[int, int, int]:
    return position.lsn, position.commit_lsn or 0, position.seq or 0


def _keep_latest(message: Message, latest: dict[bytes, Message]) -> None:
    """Replace the record of the same key, unless the new one is a lower position."""
    key = message.key() or b""
    if message.value() is None:
        latest.pop(key, None)
    elif key not in latest or not _is_regression(latest[key], message):
        latest[key] = message


def _is_regression(before: Message, message: Message) -> bool:
    """Whether both are positions, and the later one is lower."""
    try:
        was, now = (_parse(Position, each.value() or b"") for each in (before, message))
    except (ValueError, TypeError):
        return False
    return _sort_key(now) < _sort_key(was)


def _parse(kind: type[T], text: bytes) -> T:
    """The inverse of `_json`; fields that a later version has added are ignored.

    Raises ValueError or TypeError on other text.
    """
    document = json.loads(text)
    if not isinstance(document, dict):
        raise TypeError(f"{document!r} is not an object")
    types = get_type_hints(kind)
    given = {name: document[name] for name in types if name in document}
    for name, found in given.items():
        if not isinstance(found, types[name]):
            raise TypeError(f"{name} is {found!r}")
    return kind(**given)


def _json(what: Identity | Position) -> bytes:
    return json.dumps(asdict(what), separators=(",", ":")).encode()
