"""The topics of one contender: created before the run, so that is not timed; read back in full after it."""

import logging
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_S = 60.0
_AT_ONCE = 10_000

_SILENT = logging.Logger("librdkafka")  # clients complain when the broker stops before they do
_SILENT.addHandler(logging.NullHandler())


class Topics:
    """Topics with one partition each under one prefix, for the block. Counts begin at the last `mark`."""

    def __init__(self, bootstrap: str, prefix: str, tables: Iterable[str]) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._names = [f"{prefix}.public.{table}" for table in tables]
        self._admin = self._new_admin()
        self._marked: dict[str, int] = {}

    def __enter__(self) -> Self:
        made = self._admin.create_topics([NewTopic(name, 1, 1) for name in self._names])
        for future in made.values():
            future.result(_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._delete(self._under_prefix())

    def mark(self) -> None:
        """Count from here on. The contender's own topics are deleted, so each run begins like the first."""
        self._delete(self._under_prefix() - set(self._names))
        self._marked = self._ends()

    def _under_prefix(self) -> set[str]:
        there = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return {name for name in there if name.startswith(f"{self._prefix}.")}

    def _delete(self, names: set[str]) -> None:
        for future in self._admin.delete_topics(list(names)).values() if names else ():
            try:
                future.result(_TIMEOUT_S)
            except KafkaException as error:
                # The broker's list still had a topic that was already deleted.
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise

    def arrived(self) -> int:
        """Offsets used since the mark, according to the broker; reads no record."""
        return sum(self._ends().values()) - sum(self._marked.values())

    def _ends(self) -> dict[str, int]:
        """Retry while a topic, new or not, has no leader; the broker has several errors for that."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return self._ask_ends()
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                # The client keeps using its known leader epoch; a broker that was slow has a later one.
                self._admin = self._new_admin()

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap}, logger=_SILENT)

    def _ask_ends(self) -> dict[str, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets({TopicPartition(name, 0): latest for name in self._names})
        return {where.topic: future.result(_TIMEOUT_S).offset for where, future in asked.items()}

    def read(self) -> tuple[int, int]:
        """The number of records since the mark, up to the current end, and the number of distinct keys."""
        ends = [name for name, end in self._ends().items() if end > self._marked[name]]
        options = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = Consumer(options, logger=_SILENT)
        try:
            consumer.assign([TopicPartition(name, 0, self._marked[name]) for name in ends])
            return _read(consumer, set(ends))
        finally:
            consumer.close()


def _read(consumer: Consumer, unread: set[str]) -> tuple[int, int]:
    count = 0
    keys = set[int]()
    deadline = time.monotonic() + _TIMEOUT_S
    while unread:
        messages = consumer.consume(_AT_ONCE, 0.1)
        if messages:
            deadline = time.monotonic() + _TIMEOUT_S
        elif time.monotonic() > deadline:
            raise TimeoutError(f"no record within {_TIMEOUT_S:g} s from {len(unread)} topics")
        for message in messages:
            error = message.error()
            if error is None:
                count += 1
                keys.add(hash((message.topic(), message.key())))
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(str(message.topic()))
            else:
                raise KafkaException(error)
    return count, len(keys)
