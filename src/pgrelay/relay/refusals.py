"""What topics have refused, so that the encoder knows such records beforehand.

A broker refuses a whole batch, and says neither which of its records was too large nor how large one may be.
So a topic that refused is asked for its limits. With these, the encoder sets aside the record that can't be
delivered, or stops at it and names it, and the producer makes batches so small that no record is refused
because of the others in its batch.
"""

from collections.abc import Mapping
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import Config, SinkConfig
from pgrelay.encode.options import Limits
from pgrelay.errors import KafkaUnavailable, RecordRefused
from pgrelay.kafka.cluster import Cluster, TopicConfig
from pgrelay.kafka.errors import FAILED_CHECKS, passes
from pgrelay.kafka.producer_options import largest_batch, largest_record

_log = structlog.get_logger(__name__)

# What a batch of one record adds to it: 61 bytes in Kafka's record format 2, and some to spare.
_FRAMING: Final = 1_024


class Refusals:
    """The limits of the topics that have refused a record, kept as long as the process lives."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._found: dict[str, TopicConfig] = {}

    @property
    def dead_letters(self) -> Limits | None:
        """The limits past which a record of any topic is set aside; None if the policy is to stop."""
        if self._config.errors.on_record == "stop":
            return None
        return Limits(most_bytes=largest_record(self._config.sink.kafka), by_producer=True)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Those of the topics that have refused a record."""
        return {topic: self._limits(found) for topic, found in self._found.items()}

    def _limits(self, found: TopicConfig) -> Limits:
        passing = largest_record(self._config.sink.kafka)
        # To set aside too much loses nothing, while one that might pass must not end the relay. If that is
        # too large, it is refused alone.
        spare = 0 if self._config.errors.on_record == "stop" else _FRAMING
        taken = max(found.message_bytes - spare, 1)
        return Limits(min(taken, passing), found.compacted, by_producer=passing < taken)

    @property
    def sink_config(self) -> SinkConfig:
        """The sink's configuration, with batches no larger than each of these topics takes."""
        sink = self._config.sink
        if not self._found:
            return sink
        least = min(found.message_bytes for found in self._found.values())
        batch = min(max(least - _FRAMING, 1), largest_record(sink.kafka), largest_batch(sink.kafka))
        return sink.model_copy(update={"kafka": {**sink.kafka, "batch.size": str(batch)}})

    async def learn(self, error: RecordRefused) -> bool:
        """Ask for the limits of the topic that refused; false if that helps nothing.

        That is, they can't be had or are no others than before, or a single record was refused and the policy
        is to stop. Raises KafkaUnavailable if they can't be had yet, or if the record's want of a key is no
        reason.
        """
        topic = error.topic
        if not topic or (self._config.errors.on_record == "stop" and not error.by_broker):
            return False
        try:
            async with Cluster(self._config.sink) as cluster:
                found = await cluster.topic_config(topic)
        except KafkaException as failure:
            reason: KafkaError = failure.args[0]
            if passes(reason):
                raise KafkaUnavailable(
                    f"topic {topic} refused a record, and does not say yet what it accepts: {reason.str()}"
                ) from failure
            return False
        if error.keyless and not found.compacted:
            raise KafkaUnavailable(f"topic {topic} refused a batch: {FAILED_CHECKS}")
        before = self._found.get(topic)
        self._found[topic] = found
        limits = self._limits(found)
        if before is not None and limits == self._limits(before):
            return False
        _log.warning(
            f"a topic refused a record; {self._consequence}",
            topic=topic,
            most_bytes=limits.most_bytes,
            needs_key=limits.keyed,
            reason=str(error),
        )
        return True

    @property
    def _consequence(self) -> str:
        if self._config.errors.on_record == "stop":
            return "what it refused is sent again in smaller batches"
        return "what it can't take becomes a dead letter from now on"
