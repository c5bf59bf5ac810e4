"""Topics that are added to a mirror of whole transactions: its position waits until they have caught up."""

from collections.abc import Collection

from pgrelay.spark.mirrors.checkpoint import Offsets
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.whole_tables import WholeTables


class AddedTopics:
    """The topics that were added to a query, tracked during one run of it.

    The ends of an added topic's older transactions were read long ago. So the topic counts as complete once
    it is read to where it ended when this run first saw it.
    """

    def __init__(self, source: QuerySource, topics: Collection[str]) -> None:
        self._source = source
        self._topics = frozenset(topics)
        self._added: frozenset[str] | None = None  # not as far as the others; None: not determined yet
        self._ended: Offsets = {}  # where the added topics ended when they were first seen

    @property
    def is_over(self) -> bool:
        return self._added == frozenset()

    def caught_up(self, own: WholeTables, number: int, there: Collection[str]) -> bool:
        """Whether every topic is as far as the others after a batch; `there`: those that have a schema."""
        if self._added is None:
            self._added = self._begin(own)
        if self._added:
            ends = self._source.checkpoint.ends(number)
            if any(topic in there for topic in self._added - ends.keys()):
                # The batch is repeated, and was planned when the topic did not exist yet.
                return False
            if not self._ended:
                added = {topic: ends.get(topic, {}) for topic in self._added}
                self._ended = self._source.kafka.ends(added)
            if any(
                ends.get(topic, {}).get(partition, 0) < end
                for topic, joined in self._ended.items()
                for partition, end in joined.items()
            ):
                return False
            own.set_topics(self._topics)
            self._added = frozenset()
        return True

    def _begin(self, own: WholeTables) -> frozenset[str]:
        known = own.topics
        if known - self._topics:
            # A topic that is left out has to catch up when it comes back.
            own.set_topics(known & self._topics)
        return self._topics - known
