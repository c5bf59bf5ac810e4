"""What waits for room in the producer's queue, and in what order it leaves."""

from pgrelay.encode.records import BY_KEY, Record
from pgrelay.handover import Delivery
from pgrelay.progress import InFlight
from pgrelay.relay.outbox import Outbox


class Queue:
    """Takes as many records as it has room for."""

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
