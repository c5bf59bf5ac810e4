"""How far the offsets topic is read, in a thread that a stop does not wait for. There is no broker."""

import asyncio
import json
import threading
import time
from dataclasses import asdict
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import SinkConfig
from pgrelay.errors import KafkaUnavailable, PositionError, SetupError
from pgrelay.kafka.offsets import Identity, Offsets, Position

AT_ONCE = 5.0  # seconds; Kafka may be silent for ten
NOBODY = SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})
OURS = Identity("7", "d", "s")


class Told:
    """A message: the position at its offset, or the end of the partition."""

    def __init__(self, offset: int, *, end: bool = False) -> None:
        self._offset = offset
        self._error = KafkaError(KafkaError._PARTITION_EOF) if end else None

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return json.dumps(asdict(OURS)).encode()

    def value(self) -> bytes:
        return json.dumps(asdict(Position(100 + self._offset))).encode()


class NewLeader:
    """A consumer of a partition with three records, whose new leader serves only one until it knows of all.

    It refuses to give the end offset until `refuses` is used up, as brokers do that have just become leader;
    then it gives it, though the records that it serves may still lag behind.
    """

    refuses: list[int] = []  # noqa: RUF012

    def __init__(self, *_: object, **__: object) -> None:
        self._refusals = list(self.refuses)
        self._read = [Told(0), Told(1, end=True), Told(1), Told(2), Told(3, end=True)]
        self._readable = 1

    def assign(self, _: object) -> None: ...
    def close(self) -> None: ...

    def get_watermark_offsets(self, _: object, **how: Any) -> tuple[int, int]:
        if how.get("cached"):
            return 0, self._readable
        if self._refusals:
            raise KafkaException(KafkaError(self._refusals.pop(0)))
        return 0, 3

    def poll(self, _: float) -> Told:
        message = self._read.pop(0)
        self._readable = max(self._readable, message.offset())
        return message


@pytest.mark.parametrize("refuses", [[], [KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.LEADER_NOT_AVAILABLE]])
async def test_a_new_leaders_end_of_topic_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, refuses: list[int]
) -> None:
    """The position would be an old one: rows would be repeated, or the slot would seem to have been moved."""
    monkeypatch.setattr("pgrelay.kafka.offsets.Consumer", NewLeader)
    monkeypatch.setattr(NewLeader, "refuses", refuses)
    assert await Offsets(NOBODY, "app.offsets", OURS).read() == Position(102)


async def test_a_missing_right_to_read_is_an_error_with_its_cure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgrelay.kafka.offsets.Consumer", NewLeader)
    monkeypatch.setattr(NewLeader, "refuses", [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(SetupError, match=r"does not let us read topic app\.offsets: .*; grant READ on it"):
        await Offsets(NOBODY, "app.offsets", OURS).read()


@pytest.mark.parametrize(
    "sizes",
    [
        {"message.max.bytes": "200000000", "receive.message.max.bytes": "200000000"},
        {"receive.message.max.bytes": "10000000"},
        {"fetch.max.bytes": "1000"},
    ],
)
async def test_a_producers_size_options_do_not_prevent_reading(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[str, str]
) -> None:
    """A consumer wants them to fit each other: a relay of large records ended at its second start."""
    monkeypatch.setattr("pgrelay.kafka.offsets._SILENCE_S", 0.0)
    config = SinkConfig(kafka={**NOBODY.kafka, **sizes})
    with pytest.raises(KafkaUnavailable):
        await Offsets(config, "app.offsets", OURS).read()


async def test_an_option_that_a_consumer_refuses_is_an_error() -> None:
    config = SinkConfig(kafka={**NOBODY.kafka, "session.timeout.ms": "600000"})
    with pytest.raises(PositionError, match=r"^topic app\.offsets can't be read: sink\.kafka: .*session\."):
        await Offsets(config, "app.offsets", OURS).read()


async def test_a_cancelled_read_ends_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the process would not end before that thread."""
    asked = threading.Event()

    class Unanswered:
        """A consumer that gets no answer from Kafka."""

        def __init__(self, *_: object, **__: object) -> None: ...
        def assign(self, _: object) -> None: ...
        def close(self) -> None: ...

        def get_watermark_offsets(self, _: object, timeout: float) -> tuple[int, int]:
            return 0, 1

        def poll(self, timeout: float) -> None:
            asked.set()
            time.sleep(timeout)

    monkeypatch.setattr("pgrelay.kafka.offsets.Consumer", Unanswered)
    config = SinkConfig(kafka={"bootstrap.servers": "127.0.0.1:1"})
    reading = asyncio.create_task(Offsets(config, "app.offsets", Identity("7", "db", "s")).read())
    await asyncio.to_thread(asked.wait, 10)
    reading.cancel()
    began = time.monotonic()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert time.monotonic() - began < AT_ONCE
