"""Encoded records that wait for room in the producer's queue."""

from collections import deque
from collections.abc import Callable

from pgrelay.encode.records import Record
from pgrelay.handover import Delivery


class Outbox:
    """Records in order of arrival; false if it is empty.

    `refused`: a record can never be handed over. It stays, with everything behind it, so that the outbox does
    not look empty. The records before it in its list are gone.
    """

    def __init__(self) -> None:
        self.refused = False
        self._waiting: deque[tuple[Delivery, list[Record]]] = deque()
        self._taken = 0  # of the first list

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, delivery: Delivery, records: list[Record]) -> None:
        """Add records of one transaction, at least one. `delivery` counts the reports on them."""
        self._waiting.append((delivery, records))

    def hand_over(self, produce: Callable[[list[Record], int, Delivery], int]) -> bool:
        """Give the sink's `produce` as much as it has room for; true if it took anything.

        Some may be left even so; the outbox is false once all is gone. Raises what `produce` raises, once:
        nothing is handed over after that.
        """
        took_any = False
        while self._waiting and not self.refused:
            delivery, records = self._waiting[0]
            start = self._taken
            try:
                self._taken = produce(records, start, delivery)
            except Exception:
                # It is unknown how many it took: handed over again, those would be sent twice.
                self.refused = True
                raise
            took_any = took_any or self._taken > start
            if self._taken < len(records):
                break
            self._waiting.popleft()
            self._taken = 0
        return took_any
