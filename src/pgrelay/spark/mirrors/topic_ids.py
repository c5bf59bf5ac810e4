"""Topics that were deleted under a query. If re-created, their offsets restart at 0, and the query's go on.

Kafka (2.8 and later) gives each topic an id. The query's checkpoint keeps the ids of the topics that it
reads.
"""

from collections.abc import Iterable
from typing import Final

from py4j.protocol import Py4JError

from pgrelay.errors import SetupError
from pgrelay.spark.failures import log_unreadable
from pgrelay.spark.kafka import allows_data_loss
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.removed_topics import ALLOW_LOSS_ONCE

# What became of a topic; each with a place for the checkpoint.
_GONE: Final = (
    "not there (deleted, another cluster, or no right to DESCRIBE it), though the checkpoint {} has read it"
)
_RECREATED: Final = (
    "deleted and re-created, or another cluster's, since the checkpoint {} read it, so its offsets would "
    "skip the topic's first records"
)


class TopicIds:
    """The ids of the topics that one run of a query reads."""

    def __init__(self, source: QuerySource, topics: Iterable[str]) -> None:
        self._source = source
        self._unchecked = set(topics)  # those whose ids this run does not have yet

    def refuse_deleted(self) -> None:
        """Raise SetupError if a topic is not the one that the checkpoint has offsets of, unless allowed.

        Otherwise keep its id. If no broker answers, nothing is checked; without topic ids, only whether it
        exists.
        """
        self._refuse(self._fetch(self._unchecked))

    def refuse_deleted_in(self, batch: int) -> None:
        """The same for the topics of a batch that were created while the query was running."""
        if not self._unchecked:
            return
        if created := self._unchecked & self._source.checkpoint.end_offsets(batch).keys():
            self._refuse(self._fetch(created))

    def _refuse(self, found: dict[str, str | None]) -> None:
        checkpoint = self._source.checkpoint
        saved, read = checkpoint.topic_ids(), checkpoint.committed_offsets()
        ids = {topic: each for topic, each in found.items() if each}
        changed = {topic: each for topic, each in ids.items() if saved.get(topic) != each}
        recreated = changed.keys() & saved.keys()
        lost = {topic: _RECREATED for topic in recreated if any(read.get(topic, {}).values())}
        # Spark misses the partitions of a topic that is gone even if it read nothing there.
        lost |= {topic: _GONE for topic, each in found.items() if each is None and topic in read}
        if lost and not allows_data_loss(self._source.options):
            raise self._lost(*min(lost.items()))
        if changed:
            checkpoint.save_topic_ids(saved | changed)
        self._unchecked -= ids.keys()

    def _lost(self, topic: str, what: str) -> SetupError:
        return SetupError(
            f"{topic}: {what.format(self._source.checkpoint.location)}: mirror with a new checkpoint, which "
            "skips what the targets already have; if the old topic had records that were not read, deletes "
            "may be among them: drop the target first (pgrelay.spark.drop), and UPDATE every row; or, to go "
            f"on without the first records, {ALLOW_LOSS_ONCE}"
        )

    def _fetch(self, topics: Iterable[str]) -> dict[str, str | None]:
        """The ids of these topics: None for one that does not exist, "" if the broker has no ids.

        Empty if no broker answers. Raises SetupError if Kafka's client refuses its settings.
        """
        try:
            return _fetch_ids(self._source, topics)
        except Py4JError as error:
            log_unreadable("the topics' ids", error)
            return {}


def _fetch_ids(source: QuerySource, topics: Iterable[str]) -> dict[str, str | None]:
    jvm = source.session._jvm
    assert jvm is not None
    with source.kafka.admin() as client:
        found: dict[str, str | None] = dict.fromkeys(topics)
        existing = client.listTopics().names().get()
        described = client.describeTopics([topic for topic in found if topic in existing])
        ids = {topic: each.topicId() for topic, each in described.allTopicNames().get().items()}
    none = jvm.org.apache.kafka.common.Uuid.ZERO_UUID
    return found | {topic: "" if each == none else each.toString() for topic, each in ids.items()}
