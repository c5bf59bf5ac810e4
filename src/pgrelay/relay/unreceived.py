"""The age of commits that we have not received: a lag that the ledger can't know.

Nothing waits in the ledger while a large transaction comes in, or the server is slow to send the next one.
Yet commits may have been waiting on the server for long. They are later than the last one that was delivered,
and later than the last poll of the server whose WAL we have received completely. That bounds their age. But
what was received and not acknowledged by Kafka comes again after a reconnect, and may be older.

A stream that is always some seconds behind never has all WAL of the latest poll. So an earlier poll is kept
until its WAL is received. A poll from before the stream is never too recent: nothing is on its way then.
"""

from typing import Final

from pgrelay.postgres.slots import SlotWal

# The last bytes of WAL may contain nothing that is sent. And WAL of a poll this recent may be on its way.
_NEAR: Final = 1 << 20
_RECENT_S: Final = 1.0


class Unreceived:
    """Times are in monotonic seconds, also those of commits; LSNs are bytes of WAL."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._caught_up_at: float | None = None
        # A poll whose WAL we have not received completely.
        self._pending: SlotWal | None = None

    def since(
        self,
        received: int,
        wal: SlotWal,
        now: float,
        *,
        delivered: float | None,
        unacknowledged: float | None = None,
        before_stream: bool = False,
    ) -> float | None:
        """The time since which commits may have been waiting to be received; None if we are not behind.

        `wal` is the last poll of the server; `before_stream`: from before the stream began. `delivered` is
        the time of the last commit that Kafka has acknowledged, `unacknowledged` that of the oldest received
        one that it has not. Before any commit is delivered and the WAL of any poll is received, returns the
        time of the first poll.
        """
        if wal.wal_end - received <= _NEAR:
            self._note_caught_up(wal, unacknowledged)
            self._since, self._pending = None, None
        elif before_stream or now - wal.asked_at >= _RECENT_S:
            if self._pending is None:
                self._pending = wal
            elif self._pending.wal_end - received <= _NEAR:
                self._note_caught_up(self._pending, unacknowledged)
                self._pending = wal
            known = [time for time in (self._caught_up_at, delivered) if time is not None]
            self._since = max(known) if known else self._since or wal.asked_at
        return self._since

    def _note_caught_up(self, wal: SlotWal, unacknowledged: float | None) -> None:
        self._caught_up_at = wal.asked_at if unacknowledged is None else min(wal.asked_at, unacknowledged)
