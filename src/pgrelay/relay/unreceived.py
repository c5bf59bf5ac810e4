"""The age of commits that we have not received: a lag that the ledger can't know.

Nothing waits in the ledger while a large transaction comes in, or the server is slow to send the next one.
Yet commits may have been waiting on the server for long. They are later than the last one that was delivered,
and than the last look at the server of which we have received all WAL. So they are no older than that. But
what we had received and Kafka had not acknowledged comes again after a reconnect, and may be older.

A stream that is always some seconds behind never has all WAL of the latest look. So an earlier look is kept
until we have received its WAL. A look from before the stream is never too recent: nothing is under way then.
"""

from typing import Final

from pgrelay.postgres.slots import SlotWal

# The last bytes of WAL may hold nothing that is sent. And a look that is so recent says nothing about now.
_NEAR: Final = 1 << 20
_RECENT_S: Final = 1.0


class Unreceived:
    """Times are in monotonic seconds, also those of commits; LSNs are bytes of WAL."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._had_all_at: float | None = None
        # A look whose WAL we have not received yet.
        self._ahead: SlotWal | None = None

    def since(
        self,
        received: int,
        wal: SlotWal,
        now: float,
        *,
        delivered: float | None,
        waits: float | None = None,
        before: bool = False,
    ) -> float | None:
        """The time since which commits may have been waiting to be received; None if we are not behind.

        `wal` is the last look at the server: if `before`, from before the stream began. The last commit that
        Kafka has acknowledged is of `delivered`; of those received that it has not, the oldest is of `waits`.
        Before the first one, and the first look whose WAL was received, it is the first look itself.
        """
        if wal.wal_end - received <= _NEAR:
            self._had_all(wal, waits)
            self._since, self._ahead = None, None
        elif before or now - wal.asked_at >= _RECENT_S:
            if self._ahead is None:
                self._ahead = wal
            elif self._ahead.wal_end - received <= _NEAR:
                self._had_all(self._ahead, waits)
                self._ahead = wal
            known = [time for time in (self._had_all_at, delivered) if time is not None]
            self._since = max(known) if known else self._since or wal.asked_at
        return self._since

    def _had_all(self, wal: SlotWal, waits: float | None) -> None:
        self._had_all_at = wal.asked_at if waits is None else min(wal.asked_at, waits)
