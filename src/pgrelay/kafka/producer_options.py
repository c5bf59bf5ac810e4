"""The options that a producer is made with, and how large what it sends may be."""

from collections.abc import Mapping
from typing import Final

from pgrelay.errors import SetupError

_QUEUE: Final = "queue.buffering.max.kbytes"
_QUEUE_KBYTES: Final = 32_768
_BATCH_BYTES: Final = 1_000_000

# The user's own options come on top of these. A stream that is not behind does not linger: see `hurry`. An
# idempotent producer has one batch of a partition in flight, and where others have lingered meanwhile,
# librdkafka's thread spins until it is acknowledged: a core for a broker that is some milliseconds away.
_DEFAULTS: Final[Mapping[str, object]] = {
    "client.id": "pgrelay",
    "linger.ms": 100,
    "batch.size": _BATCH_BYTES,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    "socket.keepalive.enable": True,
}

# librdkafka's default for message.max.bytes.
_MESSAGE_BYTES: Final = 1_000_000

LINGERING: Final = frozenset({"linger.ms", "queue.buffering.max.ms"})

# What the guarantees stand on; the configuration refuses anything that contradicts these.
FIXED: Final[Mapping[str, object]] = {
    "acks": "all",
    # True by librdkafka's default for producers, whose table of options shows the consumers' alone.
    "allow.auto.create.topics": False,
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "message.timeout.ms": 0,
}


def largest_record(options: Mapping[str, str]) -> int:
    """The bytes of a record, by `record_size`, that the producer lets pass."""
    given = options.get("message.max.bytes", "")
    return int(given) if given.isdecimal() else _MESSAGE_BYTES


def largest_batch(options: Mapping[str, str]) -> int:
    """The bytes of a batch of records, past which the producer begins another."""
    return int(options.get("batch.size", _BATCH_BYTES))


def defaults_for(options: Mapping[str, str]) -> dict[str, object]:
    """The defaults, and the queue that these options need. Raises SetupError where they leave it no room."""
    return {**_DEFAULTS, _QUEUE: _queue_kbytes(options)}


def _queue_kbytes(options: Mapping[str, str]) -> int:
    """How much the producer's queue holds. A record larger than all of it would wait for room for ever.

    Raises SetupError where the options say so.
    """
    least = largest_record(options) // 1024 + 1
    given = options.get(_QUEUE, "")
    if given.isdecimal() and int(given) < least:
        raise SetupError(
            f"sink.kafka.{_QUEUE}: {given} is less than a record of message.max.bytes: set it to {least} or "
            "more, or leave it out"
        )
    return max(_QUEUE_KBYTES, least)
