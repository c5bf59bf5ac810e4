"""The offsets topic: what Kafka has of each slot's stream, whatever Postgres was told.

It is compacted and keeps one record for each cluster, database and slot; a position is read at a start and
held against the server. A relay that delivers exactly once writes its position in the transaction of the
rows; one that delivers at least once, ahead of every confirmation.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from pgrelay.config import Sink as SinkConfig
from pgrelay.encode.records import Record
from pgrelay.errors import BEGIN_ANEW, GapError, KafkaUnavailable, SetupError

_TIMEOUT_S: Final = 10.0

_READER: Final[Mapping[str, Any]] = {
    "group.id": "pgrelay",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # A broker holds back the news that there is nothing more, and a start waits for it.
    "fetch.wait.max.ms": 10,
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
    `commit_lsn`. `timeline` is the primary's then; None of a standby, whose slots are its own.
    """

    lsn: int
    commit_lsn: int | None = None
    seq: int | None = None
    timeline: int | None = None


class Offsets:
    """The position of one identity."""

    def __init__(self, config: SinkConfig, topic: str, identity: Identity) -> None:
        self.topic = topic
        self.identity = identity
        self._config = config
        self._log = logging.getLogger("librdkafka")

    def record(self, position: Delivered) -> Record:
        """The record that replaces the position."""
        return self.topic, _json(self.identity), _json(position), None, 0

    def read(self) -> Delivered | None:
        """The position; None: nothing yet. Takes as long as Kafka does, so call it off the loop.

        Raises GapError where the slot's name has a position of another cluster, KafkaUnavailable where the
        topic can't be read to its end, SetupError where we may not.
        """
        positions = self._latest()
        mine = positions.get(self.identity)
        if mine is not None:
            return mine
        for other in self._of_slot(positions):
            raise GapError(
                f"topic {self.topic} has a position of slot {other.slot} in cluster {other.systemid}, and "
                f"source.dsn leads to {self.identity.systemid}: point it at the old one, or {BEGIN_ANEW}"
            )
        return None

    def forgetting(self) -> list[Record]:
        """The records that make the topic forget the slot, in whatever cluster. As `read`, for the rest."""
        return [(self.topic, _json(each), None, None, 0) for each in self._of_slot(self._latest())]

    def _of_slot(self, positions: Mapping[Identity, Delivered]) -> list[Identity]:
        return [each for each in positions if (each.db, each.slot) == (self.identity.db, self.identity.slot)]

    def _latest(self) -> dict[Identity, Delivered]:
        """The latest committed position of each identity.

        A reader of committed records stops at any transaction that is open, whosever it is, and does not see
        what was committed behind it: so the end is only where there are no records at all.
        """
        partition = TopicPartition(self.topic, 0, OFFSET_BEGINNING)
        consumer = Consumer({**self._config.kafka, **_READER}, logger=self._log)
        positions: dict[Identity, Delivered] = {}
        try:
            consumer.assign([partition])
            while (message := consumer.poll(_TIMEOUT_S)) is not None:
                error = message.error()
                if error is None:
                    identity = Identity(**json.loads(message.key() or b""))
                    positions.pop(identity, None)
                    if (value := message.value()) is not None:
                        positions[identity] = Delivered(**json.loads(value))
                elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    pass  # librdkafka looks for the group's coordinator, and we have nothing to ask it
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise SetupError(
                        f"Kafka does not let us read topic {self.topic}: {error.str()}; grant READ on it"
                    )
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaUnavailable(f"topic {self.topic} can't be read: {error.str()}")
                elif (message.offset() or 0) >= consumer.get_watermark_offsets(partition, cached=True)[1]:
                    return positions
        finally:
            consumer.close()
        raise KafkaUnavailable(
            f"topic {self.topic} can't be read to its end: Kafka does not answer, or another relay has a "
            "transaction open"
        )


def _json(what: Identity | Delivered) -> bytes:
    return json.dumps(asdict(what), separators=(",", ":")).encode()
