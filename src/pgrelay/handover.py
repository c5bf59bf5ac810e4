"""The code at both ends that every row passes through: out of libpq, into librdkafka, its delivery report.

Neither client is imported here: the functions get their callees as arguments, so that this module compiles
with the pure rooms.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pgrelay.encode.records import Record
from pgrelay.progress import InFlight
from pgrelay.wire.replication import KEEPALIVE


class ProduceError(Exception):
    """librdkafka will never accept the record at `index`; `reason` is what `produce` raised."""

    def __init__(self, index: int, reason: Exception) -> None:
        self.index = index
        self.reason = reason  # compiled code raises without `__cause__`


class Delivery:
    """Counts the delivery reports of one transaction's records. One bound method serves them all.

    `on_refused` is called with the error, the message and the transaction's commit LSN. The error is None if
    there is none and yet no offset: Kafka has not acknowledged that record, only a later one.
    """

    __slots__ = ("_on_refused", "commit_lsn", "inflight")

    def __init__(
        self, inflight: InFlight, commit_lsn: int, on_refused: Callable[[Any, Any, int], None]
    ) -> None:
        self.inflight = inflight
        self.commit_lsn = commit_lsn
        self._on_refused = on_refused

    def report(self, error: object, message: Any) -> None:
        if error is None and message.offset() is not None:
            self.inflight.acknowledged += 1
        else:
            self._on_refused(error, message, self.commit_lsn)


def take_frames(
    frames: list[bytes],
    get_copy_data: Callable[[int], Any],
    consume_input: Callable[[], None],
    max_frames: int,
    max_bytes: int,
) -> bool:
    """Add the CopyData messages that have arrived to `frames`; false if the stream has ended.

    A keepalive is always the last frame. `get_copy_data` and `consume_input` are libpq's; what they raise
    passes through, and `frames` has what came before.
    """
    # consume_input reads only what libpq's buffer has room for, which is little. And TLS may hold decrypted
    # bytes that the socket no longer announces. So it is called until it yields no message.
    consumed = False
    size = 0
    while len(frames) < max_frames and size < max_bytes:
        length, data = get_copy_data(1)
        if length > 0:
            consumed = False
            frame: bytes = data.tobytes()  # half the cost of bytes(data)
            frames.append(frame)
            size += len(frame)
            if frame[0] == KEEPALIVE:
                return True
        elif length < 0:
            return False
        elif consumed:
            return True
        else:
            consume_input()
            consumed = True
    return True


def hand_over(
    produce: Callable[..., None], records: Sequence[Record], start: int, report: Callable[..., None]
) -> int:
    """Pass the records, from index `start` on, to librdkafka's `produce`.

    Returns the index of the first that found no room, or past the last. Raises ProduceError.
    """
    index = start
    try:
        while index < len(records):
            topic, key, value, headers, partition = records[index]
            if headers is None:
                produce(topic, value, key, partition, report)
            else:
                produce(topic, value, key, partition, report, headers=headers)
            index += 1
    except BufferError:
        # Not an error, and frequent while Kafka is slow, so no traceback may keep objects alive.
        return index
    except Exception as reason:
        raise ProduceError(index, reason) from reason
    return index
