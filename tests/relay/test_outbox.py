"""What waits for room in the producer's queue, and in what order it leaves."""

import pytest

from pgrelay.encode.records import BY_KEY, Record
from pgrelay.errors import RecordRefused
from pgrelay.handover import Delivery
from pgrelay.progress import InFlight
from pgrelay.relay.outbox import Outbox


class Queue:
    """Accepts as many records as it has room for."""

    def __init__(self, room: int = 0) -> None:
        self.room = room
        self.taken: list[tuple[bytes | None, Delivery]] = []

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        end = min(len(records), start + self.room)
        self.room -= end - start
        self.taken += [(value, delivery) for _, _, value, _, _ in records[start:end]]
        return end


def records(*values: bytes) -> list[Record]:
    return [("t", None, value, None, BY_KEY) for value in values]


def a_delivery() -> Delivery:
    return Delivery(InFlight(None), 0, lambda *_: None)


def test_all_leaves_in_order_where_there_is_room() -> None:
    outbox, first, second, queue = Outbox(), a_delivery(), a_delivery(), Queue(room=5)
    outbox.add(first, records(b"1", b"2"))
    outbox.add(second, records(b"3"))
    assert outbox.hand_over(queue.produce)
    assert not outbox
    assert queue.taken == [(b"1", first), (b"2", first), (b"3", second)]


def test_what_there_is_no_room_for_is_left_though_some_was_taken() -> None:
    outbox, delivery, queue = Outbox(), a_delivery(), Queue(room=3)
    outbox.add(delivery, records(b"1", b"2"))
    outbox.add(delivery, records(b"3", b"4"))
    assert outbox.hand_over(queue.produce)
    assert outbox
    queue.room = 1
    assert outbox.hand_over(queue.produce)
    assert not outbox
    assert [value for value, _ in queue.taken] == [b"1", b"2", b"3", b"4"]


def test_a_full_queue_takes_nothing() -> None:
    outbox, queue = Outbox(), Queue()
    outbox.add(a_delivery(), records(b"1"))
    assert not outbox.hand_over(queue.produce)
    assert outbox


def test_whole_lists_that_left_count_though_the_next_found_no_room() -> None:
    outbox, queue = Outbox(), Queue(room=1)
    outbox.add(a_delivery(), records(b"1"))
    outbox.add(a_delivery(), records(b"2"))
    assert outbox.hand_over(queue.produce)
    assert outbox


class Refusing(Queue):
    """Takes all but one value, and says so, as the sink does, without a word on those before it."""

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        values = [value for _, _, value, _, _ in records]
        if b"too large" not in values[start:]:
            return super().produce(records, start, delivery)
        self.room += 1
        super().produce(records[: values.index(b"too large")], start, delivery)
        raise RecordRefused("too large")


def test_behind_what_was_refused_nothing_leaves_and_nothing_twice() -> None:
    """It stays all the same: what has left is not all there is, so no Kafka commit may cover it."""
    outbox, queue = Outbox(), Refusing(room=10)
    outbox.add(a_delivery(), records(b"1"))
    outbox.add(a_delivery(), records(b"2", b"too large", b"3"))
    outbox.add(a_delivery(), records(b"4"))
    assert not outbox.refused
    with pytest.raises(RecordRefused):
        outbox.hand_over(queue.produce)
    assert outbox.refused
    assert not outbox.hand_over(queue.produce)
    assert outbox
    assert [value for value, _ in queue.taken] == [b"1", b"2"]
