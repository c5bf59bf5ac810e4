"""Topics added to a mirror of whole transactions: its position waits until they have caught up."""

from collections.abc import Collection

from pgrelay.spark.mirrors.checkpoint import Offsets
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.state_tables import StateTables


class AddedTopics:
    """Tracks the topics that were added to a query, during one run of it.

    The ends of an added topic's older transactions were read long ago. So the topic counts as complete once
    it is read up to where it ended when this run first saw it.
    """

    def __init__(self, source: QuerySource, topics: Collection[str]) -> None:
        self._source = source
        self._topics = frozenset(topics)
        self._added: frozenset[str] | None = None  # not as far as the others; None: not determined yet
        self._ends: Offsets = {}  # where the added topics ended when they were first seen

    @property
    def is_done(self) -> bool:
        return self._added == frozenset()

    def check_caught_up(self, state: StateTables, number: int, known: Collection[str]) -> bool:
        """Whether all topics are equally far after a batch; `known` are those that have a schema."""
        if self._added is None:
            self._added = self._find_added(state)
        if self._added:
            ends = self._source.checkpoint.end_offsets(number)
            if any(topic in known for topic in self._added - ends.keys()):
                # The batch is repeated, and was planned when the topic did not exist yet.
                return False
            if not self._ends:
                added = {topic: ends.get(topic, {}) for topic in self._added}
                self._ends = self._source.kafka.end_offsets(added)
            if any(
                ends.get(topic, {}).get(partition, 0) < end
                for topic, partitions in self._ends.items()
                for partition, end in partitions.items()
            ):
                return False
            state.set_topics(self._topics)
            self._added = frozenset()
        return True

    def _find_added(self, state: StateTables) -> frozenset[str]:
        caught_up = state.topics
        if caught_up - self._topics:
            # A topic that is left out has to catch up when it comes back.
            state.set_topics(caught_up & self._topics)
        return self._topics - caught_up
