"""Topics that were deleted under a query. Once re-created, their offsets restart at 0, and its own go on.

Kafka (2.8 and later) gives each topic an id. A query's checkpoint keeps the ids of the topics that it reads.
"""

from collections.abc import Iterable
from typing import Final

from py4j.protocol import Py4JError

from pgrelay.errors import SetupError
from pgrelay.spark.failures import log_unreadable
from pgrelay.spark.kafka import allows_loss
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.removed_topics import FOR_ONCE

# What became of a topic; each with a place for the checkpoint.
_GONE: Final = (
    "not there (deleted, another cluster, or no right to DESCRIBE it), though the checkpoint {} has read it"
)
_MADE_ANEW: Final = (
    "deleted and re-created, or another cluster's, since the checkpoint {} read it, so its offsets would "
    "skip the topic's first records"
)


class TopicIds:
    """The ids of the topics that one run of a query reads."""

    def __init__(self, source: QuerySource, topics: Iterable[str]) -> None:
        self._source = source
        self._unseen = set(topics)  # whose ids this run does not have yet

    def refuse_lost_values(self) -> None:
        """Raise SetupError if a topic is not the one that the checkpoint has offsets of, unless allowed.

        Otherwise keep its id. If no broker answers, nothing is checked; without topic ids, only whether it
        exists.
        """
        self._refuse(self._asked(self._unseen))

    def refuse_lost_in(self, batch: int) -> None:
        """The same for the topics of a batch that were created while the query runs."""
        if self._unseen and (there := self._unseen & self._source.checkpoint.ends(batch).keys()):
            self._refuse(self._asked(there))

    def _refuse(self, found: dict[str, str | None]) -> None:
        checkpoint = self._source.checkpoint
        kept, read = checkpoint.topic_ids(), checkpoint.read()
        ids = {topic: each for topic, each in found.items() if each}
        other = {topic: each for topic, each in ids.items() if kept.get(topic) != each}
        made_anew = other.keys() & kept.keys()
        lost = {topic: _MADE_ANEW for topic in made_anew if any(read.get(topic, {}).values())}
        # Spark misses the partitions of a topic that is gone even if it read nothing there.
        lost |= {topic: _GONE for topic, each in found.items() if each is None and topic in read}
        if lost and not allows_loss(self._source.options):
            raise self._lost(*min(lost.items()))
        if other:
            checkpoint.keep_topic_ids(kept | other)
        self._unseen -= ids.keys()

    def _lost(self, topic: str, what: str) -> SetupError:
        return SetupError(
            f"{topic}: {what.format(self._source.checkpoint.location)}: mirror with a new checkpoint, which "
            "skips what the targets already have; if the old topic had records that were not read, deletes "
            "may be among them: drop the target first (pgrelay.spark.drop), and UPDATE every row; or, to go "
            f"on without the first records, {FOR_ONCE}"
        )

    def _asked(self, topics: Iterable[str]) -> dict[str, str | None]:
        """The ids of these topics: None for one that does not exist, "" if the broker has no ids.

        None of them if it does not answer. Raises SetupError if Kafka's client refuses its settings.
        """
        try:
            return _ids(self._source, topics)
        except Py4JError as error:
            log_unreadable("the topics' ids", error)
            return {}


def _ids(source: QuerySource, topics: Iterable[str]) -> dict[str, str | None]:
    jvm = source.session._jvm
    assert jvm is not None
    with source.kafka.admin() as client:
        found: dict[str, str | None] = dict.fromkeys(topics)
        there = client.listTopics().names().get()
        told = client.describeTopics([topic for topic in found if topic in there]).allTopicNames().get()
        ids = {topic: each.topicId() for topic, each in told.items()}
    none = jvm.org.apache.kafka.common.Uuid.ZERO_UUID
    return found | {topic: "" if each == none else each.toString() for topic, each in ids.items()}
