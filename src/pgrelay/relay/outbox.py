"""Records that were encoded, and wait for room in the producer's queue."""

from collections import deque
from collections.abc import Callable

from pgrelay.encode.records import Record
from pgrelay.handover import Delivery


class Outbox:
    """In the order in which they came; false where it is empty.

    `refused`: a record could not be handed over, ever. It stays, as does all that follows it, so that nobody
    takes what has left for all there was; what of its list went ahead of it has left.
    """

    def __init__(self) -> None:
        self.refused = False
        self._waiting: deque[tuple[Delivery, list[Record]]] = deque()
        self._taken = 0  # of the first ones

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, delivery: Delivery, records: list[Record]) -> None:
        """Records of one transaction, at least one, and who counts the reports on them."""
        self._waiting.append((delivery, records))

    def hand_over(self, produce: Callable[[list[Record], int, Delivery], int]) -> bool:
        """Give what there is room for to `produce`, which is the sink's; true where it took anything.

        Some may be left all the same: whether all is gone only the outbox itself tells. Raises as `produce`
        does, once: after that nothing is given any more.
        """
        took_any = False
        while self._waiting and not self.refused:
            delivery, records = self._waiting[0]
            start = self._taken
            try:
                self._taken = produce(records, start, delivery)
            except Exception:
                # How many it took is not known: given again, they would be there twice.
                self.refused = True
                raise
            took_any = took_any or self._taken > start
            if self._taken < len(records):
                break
            self._waiting.popleft()
            self._taken = 0
        return took_any
