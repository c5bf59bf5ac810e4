"""What topics have refused, so that `errors.on_record: dead_letter` can set such records aside beforehand.

A broker refuses a whole batch, and says neither which of its records was too large nor how large one may be.
So a topic that refused is asked for its limits. With these, the encoder knows before it writes, and the
producer makes batches so small that no record is refused because of the others in its batch.
"""

from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import Config, SinkConfig
from pgrelay.encode.options import DeadLetterOptions, Limits
from pgrelay.errors import KafkaUnavailable, RecordRefused
from pgrelay.kafka.cluster import Cluster
from pgrelay.kafka.errors import passes
from pgrelay.kafka.producer_options import largest_batch, largest_record

_log = structlog.get_logger(__name__)

# What a batch of one record adds to it: 61 bytes in Kafka's record format 2, and some to spare.
_FRAMING: Final = 1_024


class Refusals:
    """The limits of the topics that have refused a record, kept as long as the process lives."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._limits: dict[str, Limits] = {}

    @property
    def dead_letters(self) -> DeadLetterOptions | None:
        """What the encoder sets aside; None if the policy is to stop."""
        if self._config.errors.on_record == "stop":
            return None
        most = largest_record(self._config.sink.kafka)
        return DeadLetterOptions(Limits(most_bytes=most, by_producer=True), dict(self._limits))

    @property
    def sink_config(self) -> SinkConfig:
        """The sink's configuration, with batches no larger than each of these topics takes."""
        sink = self._config.sink
        if not self._limits:
            return sink
        least = min(limits.most_bytes for limits in self._limits.values())
        batch = min(least, largest_batch(sink.kafka))
        return sink.model_copy(update={"kafka": {**sink.kafka, "batch.size": str(batch)}})

    async def learn(self, error: RecordRefused) -> bool:
        """Ask for the limits of the topic that refused; false if they can't be had, or were known before.

        Raises KafkaUnavailable if they can't be had yet.
        """
        topic = error.topic
        if self._config.errors.on_record == "stop" or not topic or topic in self._limits:
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
        passing = largest_record(self._config.sink.kafka)
        taken = max(found.message_bytes - _FRAMING, 1)
        self._limits[topic] = Limits(min(taken, passing), found.compacted, by_producer=passing < taken)
        _log.warning(
            "a topic refused a record; what it can't take becomes a dead letter from now on",
            topic=topic,
            most_bytes=self._limits[topic].most_bytes,
            needs_key=found.compacted,
            reason=str(error),
        )
        return True
