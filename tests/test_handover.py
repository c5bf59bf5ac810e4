"""The steps of every row at both ends: out of libpq, into librdkafka, and its delivery report."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message

from pgrelay.encode.records import BY_KEY, Record
from pgrelay.handover import Delivery, ProduceError, hand_over, take_frames
from pgrelay.progress import InFlight

ROW = b"w" + bytes(24)
KEEPALIVE = b"k" + bytes(17)


class Libpq:
    """Has some messages in its buffer, and receives more at each look. None ends the stream."""

    def __init__(self, *looks: list[bytes | None]) -> None:
        self._buffer = list(looks[0])
        self._looks = list(looks[1:])
        self.looked = 0

    def get_copy_data(self, asynchronous: int) -> tuple[int, memoryview]:
        assert asynchronous == 1
        if not self._buffer:
            return 0, memoryview(b"")
        message = self._buffer.pop(0)
        return (-1, memoryview(b"")) if message is None else (len(message), memoryview(message))

    def consume_input(self) -> None:
        self.looked += 1
        if self._looks:
            self._buffer += self._looks.pop(0)


def taken(libpq: Libpq, max_frames: int = 100, max_bytes: int = 10_000) -> tuple[list[bytes], bool]:
    frames: list[bytes] = []
    goes_on = take_frames(frames, libpq.get_copy_data, libpq.consume_input, max_frames, max_bytes)
    return frames, goes_on


def test_everything_that_has_arrived_is_taken() -> None:
    libpq = Libpq([ROW], [ROW, ROW], [ROW])
    assert taken(libpq) == ([ROW] * 4, True)
    assert libpq.looked == 3  # the last look found nothing


def test_what_libpq_has_not_read_yet_is_taken() -> None:
    """As when the socket has just become readable."""
    assert taken(Libpq([], [ROW])) == ([ROW], True)


def test_a_keepalive_ends_a_batch() -> None:
    libpq = Libpq([ROW, KEEPALIVE, ROW])
    assert taken(libpq) == ([ROW, KEEPALIVE], True)
    assert taken(libpq) == ([ROW], True)


def test_no_more_frames_are_taken_than_asked_for() -> None:
    assert taken(Libpq([ROW] * 5), max_frames=3) == ([ROW] * 3, True)


@pytest.mark.parametrize("short", [0, 1])
def test_no_frame_is_taken_once_max_bytes_is_reached(short: int) -> None:
    assert taken(Libpq([ROW] * 5), max_bytes=2 * len(ROW) - short) == ([ROW] * 2, True)


def test_the_end_of_the_stream_is_returned_with_the_frames_before_it() -> None:
    assert taken(Libpq([ROW, None])) == ([ROW], False)


def test_frames_taken_before_libpq_raises_are_kept() -> None:
    def cut() -> None:
        raise OSError("connection reset")

    frames: list[bytes] = []
    with pytest.raises(OSError, match="connection reset"):
        take_frames(frames, Libpq([ROW, ROW]).get_copy_data, cut, 100, 10_000)
    assert frames == [ROW, ROW]


def record(number: int, headers: Any = None) -> Record:
    return ("topic", b"%d" % number, b"{}", headers, BY_KEY)


class Librdkafka:
    """Accepts a number of records, and then raises."""

    def __init__(self, room: int, error: Exception) -> None:
        self.took: list[Any] = []
        self._room = room
        self._error = error

    def produce(self, *record: Any, **headers: Any) -> None:
        if len(self.took) == self._room:
            raise self._error
        self.took.append((*record, headers))


def test_records_are_handed_over_from_an_index_on_with_their_report() -> None:
    kafka = Librdkafka(10, BufferError())
    report: Callable[..., None] = lambda error, message: None  # noqa: E731
    assert hand_over(kafka.produce, [record(0), record(1), record(2, [("h", b"v")])], 1, report) == 3
    assert kafka.took == [
        ("topic", b"{}", b"1", BY_KEY, report, {}),
        ("topic", b"{}", b"2", BY_KEY, report, {"headers": [("h", b"v")]}),
    ]


def test_the_index_of_the_first_record_without_room_is_returned() -> None:
    kafka = Librdkafka(2, BufferError("full"))
    assert hand_over(kafka.produce, [record(number) for number in range(5)], 1, lambda *_: None) == 3
    assert [key for _, _, key, *_ in kafka.took] == [b"1", b"2"]


def test_the_index_of_a_refused_record_is_raised_with_the_reason() -> None:
    error = ValueError("refused")
    kafka = Librdkafka(2, error)
    with pytest.raises(ProduceError) as refused:
        hand_over(kafka.produce, [record(number) for number in range(5)], 1, lambda *_: None)
    assert refused.value.index == 3
    assert refused.value.reason is error
    assert [key for _, _, key, *_ in kafka.took] == [b"1", b"2"]


def test_a_report_counts_delivered_records_and_passes_on_refused_ones() -> None:
    refusals: list[tuple[object, object, int]] = []
    inflight = InFlight(None, 7)
    delivery = Delivery(inflight, 0x16B3748, lambda *refusal: refusals.append(refusal))
    refused, passed_over = Message(topic="t", offset=-1001), Message(topic="t", offset=-1001)
    delivery.report(None, Message(topic="t", offset=0))
    delivery.report("no", refused)
    delivery.report(None, passed_over)
    delivery.report(None, Message(topic="t", offset=1))
    assert inflight.acknowledged == 2
    assert refusals == [("no", refused, 0x16B3748), (None, passed_over, 0x16B3748)]
