"""Records that retention took before a query read them."""

from collections.abc import Iterable

import structlog
from py4j.protocol import Py4JError

from pgrelay.errors import SetupError
from pgrelay.spark.failures import reason
from pgrelay.spark.kafka import allows_loss
from pgrelay.spark.mirrors.query import QuerySource
from pgrelay.spark.mirrors.removed_topics import FOR_ONCE

_log = structlog.get_logger(__name__)


def refuse_taken(source: QuerySource, topics: Iterable[str]) -> None:
    """Raise SetupError if a resumed query would miss records of these topics, unless `options` allow losses.

    Spark would end the query with an error at every start. If no broker answers, nothing is checked.
    """
    checkpoint = source.checkpoint
    read = checkpoint.read()
    if not read or allows_loss(source.options):
        return
    try:
        first = source.offsets.firsts(topics)
    except Py4JError as error:
        _log.debug("the topics' first offsets can't be read", reason=reason(error))
        return
    added = sorted(topic for topic in first.keys() - read.keys() if any(first[topic].values()))
    if added:
        raise SetupError(
            f"{', '.join(added)}: new to the checkpoint {checkpoint.location}, but its first records are "
            f"gone already, which Spark takes for a loss: {FOR_ONCE}; the rows of those records have to come "
            "again"
        )
    for topic, partitions in first.items():
        for partition, offset in sorted(partitions.items()):
            # A new partition has to be read from offset 0.
            due = read.get(topic, {}).get(partition, 0)
            if due < offset:
                raise SetupError(
                    f"{topic} partition {partition}: offsets {due} to {offset - 1} are gone, but the "
                    f"checkpoint {checkpoint.location} has not read them; deletes may be among them: drop "
                    "the target with pgrelay.spark.drop, mirror with a new checkpoint, and UPDATE every row; "
                    f"or, to go on without them, {FOR_ONCE}"
                )
