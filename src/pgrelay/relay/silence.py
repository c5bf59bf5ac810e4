"""A stream on which nothing comes any more, though the server goes on taking what we send.

The kernel gives up a connection whose other end takes nothing, by `tcp_user_timeout`. It can't notice a proxy
that takes what either end sends and loses what the server does. Nor does the server, which gets our status
updates. So it is asked to answer. A walsender that decodes may not read that for minutes. But one that waits
for WAL, or for us to read, has read it, and has answered.
"""

import time
from typing import Final

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.slots import SlotWal

_ASK_EVERY_S: Final = 10.0
_LOST_AFTER_S: Final = 30.0
# Between two reads: after more than this, what lies in the socket may have come long ago.
_READ_EVERY_S: Final = 10.0


class Silence:
    """How long a stream has been silent while we listened to it."""

    def __init__(self) -> None:
        self._began = self._read = time.monotonic()
        # When the server was first asked since then, and last; and when it first said that it waits.
        self._question: float | None = None
        self._asked = self._began
        self._waited: float | None = None

    def broken(self) -> None:
        """Something has come, or may have come while we did not listen."""
        self._began = self._read = time.monotonic()
        self._question = self._waited = None

    def must_ask(self) -> bool:
        """Call if there was nothing to read. Whether to ask the server now for an answer."""
        now = time.monotonic()
        if now - self._read > _READ_EVERY_S:
            self.broken()
        self._read = now
        if now - max(self._began, self._asked) < _ASK_EVERY_S:
            return False
        self._asked = now
        self._question = now if self._question is None else self._question
        return True

    def check(self, wal: SlotWal | None) -> None:
        """Raise SourceUnavailable if the server has answered, and we never got it.

        `wal` is what the server last said elsewhere: also, whether its walsender has nothing to do. Only what
        was asked after the question counts, and twice, some time apart.
        """
        now = time.monotonic()
        if wal is None or not wal.reader_waits or now - self._read > _READ_EVERY_S:
            self._waited = None
        elif self._question is not None and wal.asked_at > self._question:
            self._waited = wal.asked_at if self._waited is None else self._waited
            if wal.asked_at - self._waited >= _ASK_EVERY_S and now - self._began >= _LOST_AFTER_S:
                raise SourceUnavailable(
                    f"nothing has come from Postgres for {_LOST_AFTER_S:g} s, not even an answer, though its "
                    "walsender is idle: something in between loses what it sends"
                )
