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


def test_everything_leaves_in_order_if_there_is_room() -> None:
    outbox, first, second, queue = Outbox(), a_delivery(), a_delivery(), Queue(room=5)
    outbox.add(first, records(b"1", b"2"))
    outbox.add(second, records(b"3"))
    assert outbox.hand_over(queue.produce)
    assert not outbox
    assert queue.taken == [(b"1", first), (b"2", first), (b"3", second)]


def test_records_without_room_stay_although_others_were_accepted() -> None:
    outbox, delivery, queue = Outbox(), a_delivery(), Queue(room=3)
    outbox.add(delivery, records(b"1", b"2"))
    outbox.add(delivery, records(b"3", b"4"))
    assert outbox.hand_over(queue.produce)
    assert outbox
    queue.room = 1
    assert outbox.hand_over(queue.produce)
    assert not outbox
    assert [value for value, _ in queue.taken] == [b"1", b"2", b"3", b"4"]


def test_a_full_queue_accepts_nothing() -> None:
    outbox, queue = Outbox(), Queue()
    outbox.add(a_delivery(), records(b"1"))
    assert not outbox.hand_over(queue.produce)
    assert outbox


def test_a_list_that_left_whole_counts_although_the_next_has_no_room() -> None:
    outbox, queue = Outbox(), Queue(room=1)
    outbox.add(a_delivery(), records(b"1"))
    outbox.add(a_delivery(), records(b"2"))
    assert outbox.hand_over(queue.produce)
    assert outbox


class Refusing(Queue):
    """Refuses one value and, as the sink does, does not report those accepted before it."""

    def produce(self, records: list[Record], start: int, delivery: Delivery) -> int:
        values = [value for _, _, value, _, _ in records]
        if b"too large" not in values[start:]:
            return super().produce(records, start, delivery)
        self.room += 1
        super().produce(records[: values.index(b"too large")], start, delivery)
        raise RecordRefused("too large")


def test_after_a_refused_record_nothing_leaves_and_nothing_leaves_twice() -> None:
    """The rest stays in the outbox, so no Kafka commit may cover it."""
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
