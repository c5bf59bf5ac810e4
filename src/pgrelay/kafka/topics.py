"""Topics as a relay makes them."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka.cimpl import NewTopic

from pgrelay.config import Sink as SinkConfig

_LASTING: Final[Mapping[str, str]] = {"cleanup.policy": "delete", "retention.ms": "-1"}
# Only a segment that is closed is compacted, and a reader goes through all that is not: so they are small.
_COMPACTED: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "3600000",
}


def new_topic(name: str, config: SinkConfig, lasting: bool, compacted: bool = False) -> NewTopic:
    """A topic as the configuration wants it made.

    `lasting`: of one partition, and never cleaned; `compacted`: but for records that later ones replace.
    """
    kept = _COMPACTED if compacted else _LASTING
    return NewTopic(
        name,
        num_partitions=1 if lasting else config.partitions,
        replication_factor=config.replication_factor,
        config=dict(kept if lasting else config.topic_config),
    )
