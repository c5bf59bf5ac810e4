"""Detects a stream on which nothing arrives any more, although the server still gets what we send.

By `tcp_user_timeout` the kernel gives up a connection whose other end takes nothing. It can't notice a proxy
that accepts what the server sends, and loses it; nor can the server, which gets our status updates. So we
request a reply. A walsender that is decoding may not read the request for minutes. But one that waits for
WAL, or for us to read, has read it and replied.
"""

import time
from typing import Final

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.slots import SlotWal

_REQUEST_EVERY_S: Final = 10.0
_LOST_AFTER_S: Final = 30.0
# Longest pause between two reads: after more, what is in the socket may have arrived long ago.
_READ_EVERY_S: Final = 10.0


class Silence:
    """How long a stream has been silent while we were reading it."""

    def __init__(self) -> None:
        self._began = self._read = time.monotonic()
        # When a reply was first requested since then, and last; when the walsender was first seen waiting.
        self._first_request: float | None = None
        self._last_request = self._began
        self._waiting_since: float | None = None

    def reset(self) -> None:
        """Something has arrived, or may have arrived while we did not read."""
        self._began = self._read = time.monotonic()
        self._first_request = self._waiting_since = None

    def must_request_reply(self) -> bool:
        """Call when there was nothing to read. Whether to request a reply from the server now."""
        now = time.monotonic()
        if now - self._read > _READ_EVERY_S:
            self.reset()
        self._read = now
        if now - max(self._began, self._last_request) < _REQUEST_EVERY_S:
            return False
        self._last_request = now
        self._first_request = now if self._first_request is None else self._first_request
        return True

    def check(self, wal: SlotWal | None) -> None:
        """Raise SourceUnavailable if the server has replied, and the reply never arrived.

        `wal` is what the server last said on the other connection, including whether its walsender is idle.
        That counts only if it was asked after our request, and twice, some time apart.
        """
        now = time.monotonic()
        if wal is None or not wal.reader_waits or now - self._read > _READ_EVERY_S:
            self._waiting_since = None
        elif self._first_request is not None and wal.asked_at > self._first_request:
            self._waiting_since = wal.asked_at if self._waiting_since is None else self._waiting_since
            if wal.asked_at - self._waiting_since >= _REQUEST_EVERY_S and now - self._began >= _LOST_AFTER_S:
                raise SourceUnavailable(
                    f"nothing has come from Postgres for {_LOST_AFTER_S:g} s, not even an answer, though its "
                    "walsender is idle: something in between loses what it sends"
                )
