"""The slot's position in Kafka, as a start uses it before the stream begins."""

from pgrelay.errors import RESET_CURE, GapError, SetupError
from pgrelay.kafka.offsets import Offsets, Position
from pgrelay.kafka.sink import Sink
from pgrelay.lsn import format_lsn
from pgrelay.relay.gap_checks import standby_error
from pgrelay.relay.server import Server


async def check_may_create_slot(sink: Sink, server: Server) -> None:
    """Call if there is no slot. Raises GapError if Kafka has a position: a new slot would hide the gap.

    Raises StandbyNotReady if the position is a primary's and the server is a standby; PositionError if the
    position can't be read.
    """
    await sink.topics.load()
    slot = server.config.source.slot
    try:
        position = await read_position(sink, server.offsets)
    except SetupError:
        # Exactly once reads it again later, and raises then; at least once does without.
        return
    if position is not None and server.standby and position.timeline is not None:
        raise standby_error(f"which lacks its primary's slot {slot}")
    if position is not None:
        raise GapError(
            f"slot {slot} is gone, and Kafka has everything up to "
            f"{format_lsn(position.lsn)}: later changes never reach the topics; {RESET_CURE}"
        )


async def read_or_init_position(sink: Sink, offsets: Offsets) -> Position | None:
    """At least once: the position in Kafka; None if there is none yet. Creates its topic if missing.

    Raises SetupError if Kafka does not let us read or create the topic, and what else `Offsets.read` raises.
    A topic that we may read but not write ends the run at its first record.
    """
    # Before the topic is created: a new one has nothing to read.
    position, known = await read_position(sink, offsets), offsets.topic in sink.topics
    await sink.topics.require(offsets.topic, "offsets")
    if not known and offsets.topic not in sink.topics.created:
        # The topic exists, but the broker that was asked did not know it yet.
        position = await offsets.read()
    return position


async def read_position(sink: Sink, offsets: Offsets) -> Position | None:
    """The position in Kafka; None if there is none. `sink` is connected. Raises as `Offsets.read`."""
    return await offsets.read() if offsets.topic in sink.topics else None
