"""A producer without a broker, for sinks that are otherwise as in a run."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from pgrelay.encode.records import Headers
from pgrelay.kafka.offsets import Position

TAKEN: Final = b"taken"
# The broker refuses such a record at once, and the producer takes none of the other kind.
REFUSED: Final = b"refused"
OVERSIZED: Final = b"oversized"
# An answer: the broker has taken a later record, and librdkafka concludes that it has this one too.
PASSED_OVER: Final = KafkaError.NO_ERROR

# Whoever waits less for reports, as a sink that flushes early, gets none but those that have come.
_WAIT_S: Final = 0.01

Report = Callable[[KafkaError | None, Message], None]


class FakeProducer:
    """Its broker answers a record, the oldest, if told to `answer`, or if somebody waits for it.

    `answers` are the codes of its next answers; without any, and for None, it acknowledges. `events` is what
    the next call that takes in reports does, one after the other. `room` is for so many records. `calls`
    names those that took in reports. `error` is what the open transaction has failed by; a commit waits for
    `commits` to be set. `produced` is what it took, `committed` the records of each transaction.
    """

    def __init__(self, *, room: int = 1_000, waits: float = 1) -> None:
        """`waits`: how often somebody must wait for an answer; inf if there are none unless told."""
        self.room = room
        self.answers: Iterator[int | None] = iter(())
        self.events: deque[Callable[[], None]] = deque()
        self.calls: list[str] = []
        self.error: KafkaError | None = None
        self.commits = threading.Event()
        self.commits.set()
        self.produced: list[Message] = []
        self.committed: list[list[Message]] = []
        self._waits, self._waited = waits, 0
        self._sent: deque[tuple[Message, Report]] = deque()
        self._unreported = 0
        self._transaction: list[Message] | None = None

    def clients(
        self, producer_options: dict[str, Any], admin_options: dict[str, Any]
    ) -> tuple[Producer, AdminClient]:
        """A sink's `make_clients`. No topic is created, so nobody asks the admin client."""
        return cast(Producer, self), cast(AdminClient, None)

    @property
    def positions(self) -> list[Position]:
        """The position of each committed transaction."""
        return [Position(**json.loads(records[-1].value() or b"")) for records in self.committed]

    # --- What the broker does

    def answer(self, code: int | None = None) -> None:
        """Answer the oldest record: acknowledge it, or refuse it by this code."""
        self._answer(*self._sent.popleft(), code)

    def fail(self, code: int) -> None:
        """Fail for good, behind the reports that have come."""

        def fatal() -> None:
            raise KafkaException(KafkaError(code))

        self.events.append(fatal)

    def _answer(self, message: Message, report: Report, code: int | None) -> None:
        def take() -> None:
            self._unreported -= 1
            if code == PASSED_OVER:
                report(None, Message(topic=message.topic(), partition=message.partition(), key=message.key()))
            else:
                report(None if code is None else KafkaError(code), message)

        self.events.append(take)

    # --- What a sink calls

    def __len__(self) -> int:
        return self._unreported

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        report: Report,
        headers: Headers | None = None,
    ) -> None:
        if self.error is not None:
            raise KafkaException(KafkaError(KafkaError._STATE))
        if value == OVERSIZED:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self) >= self.room:
            raise BufferError
        at = len(self.produced)
        message = Message(topic=topic, partition=max(partition, 0), offset=at, key=key, value=value)
        self._unreported += 1
        self.produced.append(message)
        if self._transaction is not None:
            self._transaction.append(message)
        if value == REFUSED:
            self._answer(message, report, KafkaError.MSG_SIZE_TOO_LARGE)
        else:
            self._sent.append((message, report))

    def poll(self, timeout_s: float) -> int:
        self.calls.append("poll")
        return self._take(timeout_s)

    def flush(self, timeout_s: float) -> int:
        self.calls.append("flush")
        self._take(timeout_s)
        return len(self)

    def _take(self, timeout_s: float) -> int:
        if timeout_s >= _WAIT_S and self._sent and not self.events:
            self._waited += 1
            if self._waited >= self._waits:
                self._waited = 0
                self.answer(next(self.answers, None))
        # Nothing of it is left for another thread that polls meanwhile; but what is behind an error is.
        coming, self.events = self.events, deque()
        count = len(coming)
        try:
            while coming:
                coming.popleft()()
        finally:
            self.events.extendleft(reversed(coming))
        return count

    def purge(self) -> None:
        while self._sent:
            self.answer(KafkaError._PURGE_QUEUE)

    def list_topics(self, only: str | None, timeout_s: float) -> SimpleNamespace:
        topic = SimpleNamespace(partitions={0: None}, error=None)
        return SimpleNamespace(brokers={1: "b:9092"}, topics={"app.offsets": topic})

    def init_transactions(self, timeout_s: float) -> None:
        """Nobody else has the identity."""

    def begin_transaction(self) -> None:
        """Raises the error of the open transaction, if one is open."""
        if self.error is not None:
            raise KafkaException(self.error)
        if self._transaction is not None:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._transaction = []

    def commit_transaction(self, timeout_s: float) -> None:
        self.calls.append("commit")
        if not self.commits.wait(timeout_s):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        if self.error is not None:
            self.purge()
        while self._sent:
            self.answer()
        self._take(0)
        if self.error is not None:
            raise KafkaException(self.error)
        assert self._transaction is not None
        self.committed.append(self._transaction)
        self._transaction = None
