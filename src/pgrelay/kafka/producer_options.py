"""The options of a producer, and how large its records and batches may be."""

from collections.abc import Mapping
from typing import Final

from pgrelay.errors import SetupError

_QUEUE: Final = "queue.buffering.max.kbytes"
_QUEUE_KBYTES: Final = 32_768
_BATCH_BYTES: Final = 1_000_000
# A partition's new leader gets no records before the requests to the old one are over. Brokers replace one
# that hangs after broker.session.timeout.ms, 9 s by default; librdkafka's default is to wait for 60 s.
_SOCKET_TIMEOUT_MS: Final = 15_000
# librdkafka's own default, and the least that it allows.
_TRANSACTION_TIMEOUT_MS: Final = 60_000
_MIN_TIMEOUT_MS: Final = 1_000

# The user's own options override these. A stream that is not behind does not linger: see `flush_early`. An
# idempotent producer has one batch of a partition in flight. If the linger time of other records is over by
# then, librdkafka's thread spins until the batch is acknowledged: a core if the broker is milliseconds away.
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

# What the guarantees depend on; the configuration refuses what contradicts these.
FIXED: Final[Mapping[str, object]] = {
    "acks": "all",
    # librdkafka's default for producers is true; its table of options shows only the one for consumers.
    "allow.auto.create.topics": False,
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "message.timeout.ms": 0,
}


# Once a batch of a partition is refused, nothing may overtake it: to consumers its records would look like
# repetitions when they come. Exactly once does not need it: a transaction that fails has no records.
GAPLESS: Final[Mapping[str, object]] = {"enable.gapless.guarantee": True}


def largest_record(options: Mapping[str, str]) -> int:
    """The most bytes, by `record_size`, that a record may have for the producer to accept it."""
    given = options.get("message.max.bytes", "")
    return int(given) if given.isdecimal() else _MESSAGE_BYTES


def largest_batch(options: Mapping[str, str]) -> int:
    """The size in bytes at which the producer begins another batch."""
    return int(options.get("batch.size", _BATCH_BYTES))


def transaction_timeout_ms(options: Mapping[str, str]) -> int:
    """How long a Kafka transaction may be open before brokers abort it."""
    return int(options.get("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS))


def defaults_for(options: Mapping[str, str]) -> dict[str, object]:
    """The defaults to go with these options. Raises SetupError if the options give too small a queue."""
    # librdkafka refuses a socket timeout longer than the transaction timeout. If the latter is invalid, it is
    # the option to be refused, not ours.
    socket_timeout_ms = min(_SOCKET_TIMEOUT_MS, max(_MIN_TIMEOUT_MS, transaction_timeout_ms(options)))
    return {**_DEFAULTS, _QUEUE: _queue_kbytes(options), "socket.timeout.ms": socket_timeout_ms}


def _queue_kbytes(options: Mapping[str, str]) -> int:
    """How much the producer's queue holds. A record larger than all of it would wait for room for ever.

    Raises SetupError if the options allow such a record.
    """
    least = largest_record(options) // 1024 + 1
    given = options.get(_QUEUE, "")
    if given.isdecimal() and int(given) < least:
        raise SetupError(
            f"sink.kafka.{_QUEUE}: {given} is less than a record of message.max.bytes; set it to {least} or "
            "more, or leave it out"
        )
    return max(_QUEUE_KBYTES, least)
