"""The reader: a plain Kafka consumer of the relay's topics."""

import logging
from types import TracebackType
from typing import Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from pgrelay.demo.change import Change, parse_change

_OPTIONS: Final = {
    "group.id": "pgrelay-demo",  # required, though no offset is ever committed
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,  # a new partition is only fetched after the pending request returns
}
_AT_ONCE: Final = 2_000
_TIMEOUT_S: Final = 10.0

# librdkafka's messages would only clutter the terminal; the demo itself reports a broker that ends.
_SILENT: Final = logging.Logger("librdkafka")
_SILENT.addHandler(logging.NullHandler())


class Topics:
    """Reads the topics of schema `public` and of logical messages from the beginning, as they are created."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._options = {"bootstrap.servers": bootstrap, **_OPTIONS}
        self._wanted = (f"{prefix}.public.", f"{prefix}.message")
        self._next: dict[tuple[str, int], int] = {}
        self._last: dict[tuple[str, int], Change] = {}

    def __enter__(self) -> Self:
        self._consumer = Consumer(self._options, logger=_SILENT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def find_new_topics(self) -> None:
        """Find topics that were created since the last call."""
        found = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
        new = [
            (topic, partition)
            for topic, metadata in found.items()
            if topic.startswith(self._wanted)
            for partition in metadata.partitions
            if (topic, partition) not in self._next
        ]
        if new:
            self._next |= dict.fromkeys(new, 0)
            self._consumer.incremental_assign([TopicPartition(*where, OFFSET_BEGINNING) for where in new])

    def read(self, timeout_s: float) -> list[Change]:
        """The changes that have arrived, in commit order; wait at most `timeout_s` for the first."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(_AT_ONCE, timeout=0.005)]
        return sorted(map(self._change, messages), key=lambda change: change.position)

    def at_end(self) -> bool:
        """Whether everything that the broker holds has been read."""
        self.find_new_topics()
        return all(
            self._consumer.get_watermark_offsets(TopicPartition(*where), timeout=_TIMEOUT_S)[1] == offset
            for where, offset in self._next.items()
        )

    def _change(self, message: Message) -> Change:
        if error := message.error():
            raise KafkaException(error)
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        where = (topic, partition)
        change = parse_change(topic, message.key(), message.value(), self._last.get(where))
        self._next[where] = offset + 1
        self._last[where] = change
        return change
