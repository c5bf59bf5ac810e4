"""A partition that a broker does not lead yet, or not any more, when the first batch comes.

A real broker answers so for some milliseconds after a topic was created, or a leader moved. Here what it says
is told in its place, at a moment that can be chosen. Source: Kafka's protocol guide, "Produce".
"""

import struct
from collections.abc import Iterator
from typing import Final

_PRODUCE: Final = 0
_NOT_LEADER_OR_FOLLOWER: Final = 6
_INT: Final = struct.Struct("!i")
_HEADER: Final = struct.Struct("!ihhi")  # size, key and version of the API, correlation id
# Index, error, base offset, time and start of the log; no errors of records, no message, no tagged fields.
_PARTITION: Final = struct.Struct("!ihqqqBBB")
_FLEXIBLE: Final = range(9, 13)  # versions


class MovedLeader:
    """A proxy's `intercept`: the first batch of a topic, of one partition, is refused as the next passes.

    `at_once`: it is refused without waiting for the next.
    """

    def __init__(self, topic: str, *, at_once: bool = False) -> None:
        self.refused = False
        self._at_once = at_once
        # A compact string: its length is told as one more.
        self._topic = bytes([len(topic) + 1]) + topic.encode()
        self._first: bytes | None = None

    def __call__(self, sent: bytes) -> tuple[bytes, bytes]:
        passed = answer = b""
        for request in _requests(sent):
            _, api, version, correlation = _HEADER.unpack_from(request)
            if self.refused or api != _PRODUCE or self._topic not in request:
                passed += request
            elif self._first is None:
                assert version in _FLEXIBLE
                self._first = self._refusal(correlation)
                if self._at_once:
                    answer, self.refused = self._first, True
            else:
                passed, answer, self.refused = passed + request, self._first, True
        return passed, answer

    def _refusal(self, correlation: int) -> bytes:
        one, end = bytes([1 + 1]), bytes([0])  # a compact array's length; no tagged fields
        partition = _PARTITION.pack(0, _NOT_LEADER_OR_FOLLOWER, -1, -1, -1, 0 + 1, 0, 0)
        throttled_ms = _INT.pack(0)
        body = _INT.pack(correlation) + end + one + self._topic + one + partition + end + throttled_ms + end
        return _INT.pack(len(body)) + body


def _requests(sent: bytes) -> Iterator[bytes]:
    while sent:
        size = _INT.size + _INT.unpack_from(sent)[0]
        assert len(sent) >= size, "a request in parts"
        yield sent[:size]
        sent = sent[size:]
