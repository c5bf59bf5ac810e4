"""The topics of one contender: made ahead, so that nobody's run pays for it, and read back in full after."""

import logging
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_S = 60.0
_AT_ONCE = 10_000

_SILENT = logging.Logger("librdkafka")  # clients complain when the broker stops before they do
_SILENT.addHandler(logging.NullHandler())


class Topics:
    """Topics of one partition, for the block. Offsets are those of the end when last `mark`ed."""

    def __init__(self, bootstrap: str, names: list[str]) -> None:
        self._bootstrap = bootstrap
        self._names = names
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_SILENT)
        self._marked: dict[str, int] = {}

    def __enter__(self) -> Self:
        made = self._admin.create_topics([NewTopic(name, 1, 1) for name in self._names])
        for future in made.values():
            future.result(_TIMEOUT_S)
        self._await_leaders()
        return self

    def _await_leaders(self) -> None:
        """Topics are there before anybody leads them, which the broker has several errors for."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                self.mark()
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for future in self._admin.delete_topics(self._names).values():
            future.result(_TIMEOUT_S)

    def mark(self) -> None:
        """From here on records count."""
        self._marked = self._ends()

    def arrived(self) -> int:
        """Offsets taken since the mark, by asking the broker alone."""
        return sum(self._ends().values()) - sum(self._marked.values())

    def _ends(self) -> dict[str, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets({TopicPartition(name, 0): latest for name in self._names})
        return {where.topic: future.result(_TIMEOUT_S).offset for where, future in asked.items()}

    def read(self) -> tuple[int, int]:
        """The number of records since the mark, up to the end now, and of different keys among them."""
        ends = {name: end for name, end in self._ends().items() if end > self._marked[name]}
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "bench", "enable.auto.commit": False},
            logger=_SILENT,
        )
        try:
            consumer.assign([TopicPartition(name, 0, self._marked[name]) for name in ends])
            return _read(consumer, ends)
        finally:
            consumer.close()


def _read(consumer: Consumer, ends: dict[str, int]) -> tuple[int, int]:
    count = 0
    keys = set[int]()
    deadline = time.monotonic() + _TIMEOUT_S
    while ends:
        messages = consumer.consume(_AT_ONCE, 0.1)
        if messages:
            deadline = time.monotonic() + _TIMEOUT_S
        elif time.monotonic() > deadline:
            raise TimeoutError(f"no record within {_TIMEOUT_S:g} s from {len(ends)} topics")
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            topic, offset = str(message.topic()), message.offset() or 0
            count += 1
            keys.add(hash((topic, message.key())))
            if offset + 1 == ends.get(topic):
                del ends[topic]
    return count, len(keys)
