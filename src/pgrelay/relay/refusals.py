"""What topics have refused, and how the next session adapts.

A broker refuses a whole batch, and says neither which of its records was too large nor how large one may be.
So the next session sends each transaction only once the one before it is in Kafka, up to where the last
session had read: then it is known what is refused. And the topic is asked for its limits. With these the
producer makes batches so small that no record is refused because of the others, and the encoder, under
`errors.on_record: dead_letter`, knows what to set aside before it is written.
"""

from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from pgrelay.config import Config, SinkConfig
from pgrelay.encode.options import DeadLetterOptions, Limits
from pgrelay.errors import KafkaUnavailable, RecordRefused
from pgrelay.kafka.cluster import Cluster, TopicConfig
from pgrelay.kafka.delivery_errors import failed_checks_error
from pgrelay.kafka.errors import is_transient
from pgrelay.kafka.producer_options import largest_batch, largest_record
from pgrelay.relay.record_options import topics_of

_log = structlog.get_logger(__name__)

# What a batch adds to its only record: 61 bytes in Kafka's record format 2, and some to spare.
_FRAMING: Final = 1_024


class Refusals:
    """The limits of topics that have refused a record, kept for as long as the process lives.

    `serial_until`: the LSN up to which a session sends one transaction after the other; 0 at first.
    """

    def __init__(self, config: Config) -> None:
        self.serial_until = 0
        self._config = config
        self._positions_topic = topics_of(config).offsets
        self._found: dict[str, TopicConfig] = {}

    @property
    def dead_letters(self) -> DeadLetterOptions | None:
        """What the encoder sets aside; None if the policy is to stop."""
        if self._config.errors.on_record == "stop":
            return None
        default = Limits(max_bytes=largest_record(self._config.sink.kafka), set_by_producer=True)
        return DeadLetterOptions(
            default, {topic: self._limits(found) for topic, found in self._found.items()}
        )

    def _limits(self, found: TopicConfig) -> Limits:
        passing = largest_record(self._config.sink.kafka)
        taken = max(found.message_bytes - _FRAMING, 1)
        return Limits(min(taken, passing), found.compacted, set_by_producer=passing < taken)

    @property
    def sink_config(self) -> SinkConfig:
        """The sink's configuration, with batches no larger than each of these topics takes."""
        sink = self._config.sink
        if not self._found:
            return sink
        least = min(found.message_bytes for found in self._found.values())
        batch = min(max(least - _FRAMING, 1), largest_record(sink.kafka), largest_batch(sink.kafka))
        return sink.model_copy(update={"kafka": {**sink.kafka, "batch.size": str(batch)}})

    async def adapt_to(self, error: RecordRefused, serial: bool, read_lsn: int) -> bool:
        """Prepare the next session for what has ended the last one; false if it would end the same way.

        `serial`: the ended session sent one transaction after the other; `read_lsn` is how far it had read.
        Raises KafkaUnavailable if the topic can't be asked for its limits yet. Raises RecordRefused if the
        lack of a key looked like the reason, but the topic, which is not compacted, needs none.
        """
        # A position is a single record, written after the transactions that could be sent serially.
        is_position = error.topic == self._positions_topic
        resend = error.by_broker and not serial and not is_position
        if resend:
            self.serial_until = read_lsn
        learnt = await self._learn_limits(error)
        if resend and not learnt:
            _log.warning(
                "a topic refused a batch; its transactions are sent again, one after the other",
                topic=error.topic,
                reason=str(error),
            )
        return learnt or resend

    async def _learn_limits(self, error: RecordRefused) -> bool:
        """Ask the topic that refused for its limits; false if they can't be had, or are known already."""
        topic = error.topic
        if not topic or (self._config.errors.on_record == "stop" and not error.by_broker):
            return False
        try:
            async with Cluster(self._config.sink) as cluster:
                found = await cluster.topic_config(topic)
        except KafkaException as failure:
            reason: KafkaError = failure.args[0]
            if is_transient(reason):
                raise KafkaUnavailable(
                    f"topic {topic} refused a record, and does not say yet what it accepts: {reason.str()}"
                ) from failure
            return False
        if error.keyless and not found.compacted:
            raise failed_checks_error(topic, error.commit_lsn)
        if self._found.get(topic) == found:
            return False
        self._found[topic] = found
        _log.warning(
            f"a topic refused a record; {self._consequence}",
            topic=topic,
            most_bytes=found.message_bytes,
            needs_key=found.compacted,
            reason=str(error),
        )
        return True

    @property
    def _consequence(self) -> str:
        if self._config.errors.on_record == "stop":
            return "what it refused is sent again in smaller batches"
        return "what it can't take becomes a dead letter from now on"
