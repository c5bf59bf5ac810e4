"""Records that expired (Kafka's retention) before a query read them."""

from collections.abc import Iterable

import structlog
from py4j.protocol import Py4JError

from pgrelay.errors import SetupError
from pgrelay.spark.failures import log_unreadable
from pgrelay.spark.kafka import allows_data_loss, sets_starting_offsets
from pgrelay.spark.mirrors.checkpoint import Offsets
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.removed_topics import ALLOW_LOSS_ONCE

_log = structlog.get_logger(__name__)


def warn_of_expired(source: QuerySource, topics: Iterable[str]) -> None:
    """With a new checkpoint, log a warning for each topic whose first records are gone.

    Not if `options` say where to start, or allow losses. If no broker answers, nothing is checked.
    """
    if (
        source.checkpoint.committed_offsets()
        or sets_starting_offsets(source.options)
        or allows_data_loss(source.options)
    ):
        return
    for topic, partitions in sorted(_beginning_offsets(source, topics).items()):
        if gone := sum(partitions.values()):
            _log.warning(
                "a topic's first records are gone, and the target will lack what they did",
                topic=topic,
                records=gone,
                cure="UPDATE every row; if the target has rows already, drop it first (pgrelay.spark.drop), "
                "since deletes may be among those records; to keep records, retention.ms=-1",
            )


def refuse_expired(source: QuerySource, topics: Iterable[str]) -> None:
    """Raise SetupError if a resumed query would miss records of these topics, unless `options` allow losses.

    Spark would end the query with an error at every start. If no broker answers, nothing is checked.
    """
    checkpoint = source.checkpoint
    read = checkpoint.committed_offsets()
    if not read or allows_data_loss(source.options):
        return
    first = _beginning_offsets(source, topics)
    added = sorted(topic for topic in first.keys() - read.keys() if any(first[topic].values()))
    if added:
        raise SetupError(
            f"{', '.join(added)}: new to the checkpoint {checkpoint.location}, but its first records are "
            f"gone already, which Spark takes for a loss: {ALLOW_LOSS_ONCE}; the rows of those records have "
            "to come again"
        )
    for topic, partitions in first.items():
        for partition, offset in sorted(partitions.items()):
            # A new partition has to be read from offset 0.
            next_offset = read.get(topic, {}).get(partition, 0)
            if next_offset < offset:
                raise SetupError(
                    f"{topic} partition {partition}: offsets {next_offset} to {offset - 1} are gone, but the "
                    f"checkpoint {checkpoint.location} has not read them; deletes may be among them: drop "
                    "the target with pgrelay.spark.drop, mirror with a new checkpoint, and UPDATE every row; "
                    f"or, to go on without them, {ALLOW_LOSS_ONCE}"
                )


def _beginning_offsets(source: QuerySource, topics: Iterable[str]) -> Offsets:
    """The first offset that each partition still has; empty if no broker answers.

    Raises SetupError if Kafka's client refuses its settings.
    """
    try:
        return source.kafka.beginning_offsets(topics)
    except Py4JError as error:
        log_unreadable("the topics' first offsets", error)
        return {}
