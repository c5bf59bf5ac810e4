"""Whether sessions make headway, or each is only another try that ends like the one before.

After the spool's disk has failed, that is known only once a session has got past the point of the failure.
After other trouble, once a session has lasted, or has delivered something.
"""

import time
from typing import Final, NamedTuple, Self

from pgrelay.errors import SpoolError
from pgrelay.relay.session import Session

# This many sessions in a row that end within this time, no further than they began: nothing flows.
_SHORT_S: Final = 10.0
_SHORT_IN_A_ROW: Final = 2


class _Extent(NamedTuple):
    """How far a session has come; `held` is the bytes of the transactions that wait for their commit."""

    server_lsn: int
    flush_lsn: int
    held: int

    @classmethod
    def of(cls, session: Session) -> Self:
        held = (transaction.frames for transaction in session.assembler.open_transactions())
        size = sum(frames.in_memory + frames.on_disk for frames in held)
        return cls(session.assembler.server_lsn, session.ledger.flush_lsn, size)

    def is_past(self, other: Self) -> bool:
        """More is held or delivered. A later LSN is no proof: segments differ from session to session."""
        holds_more = self.server_lsn > other.server_lsn and self.held > other.held
        return holds_more or self.flush_lsn > max(other.server_lsn, other.flush_lsn)


class Headway:
    """Judges one session after the other."""

    def __init__(self) -> None:
        # How far a session was when the spool's disk last failed, until one gets further; and the error.
        self._spool_failed_at: _Extent | None = None
        self._spool_failure = ""
        self._began_at, self._turned_at, self._began_lsn = 0.0, 0.0, 0
        # How many short sessions there were in a row, and what ended the last of them.
        self._short, self._reason = 0, ""

    @property
    def blocker(self) -> str | None:
        """What ended the last sessions, as long as they made no headway; else None."""
        if self._spool_failed_at is not None:
            return self._spool_failure
        return self._reason if self._short >= _SHORT_IN_A_ROW else None

    def on_begin(self, session: Session) -> None:
        """A session begins, or has learnt what was delivered, which is not counted."""
        self._began_at = self._turned_at = time.monotonic()
        self._began_lsn = session.ledger.flush_lsn

    def on_turn(self, session: Session) -> str | None:
        """Call once a turn. Returns what to log if that ends the blocker."""
        self._turned_at = time.monotonic()
        if self._spool_failed_at is not None:
            # The server sends everything up to the failure again, unless it was rolled back meanwhile.
            if _Extent.of(session).is_past(self._spool_failed_at):
                self._spool_failed_at = None
                return "the spool has room again"
        elif self._short >= _SHORT_IN_A_ROW and self._made_headway(session):
            self._short = 0
            return "streaming again"
        return None

    def on_end(self, session: Session, failure: Exception | None) -> None:
        """A session has ended: by `failure`, or because it was asked to."""
        if isinstance(failure, SpoolError):
            self._spool_failed_at, self._spool_failure = _Extent.of(session), str(failure)
            self._short = 0
        elif failure is None or self._made_headway(session):
            self._short = 0
        else:
            self._short, self._reason = self._short + 1, str(failure)

    def _made_headway(self, session: Session) -> bool:
        """Whether a session has got further, or has lasted, its end not counted."""
        lasted_s = self._turned_at - self._began_at
        return lasted_s >= _SHORT_S or session.ledger.flush_lsn > self._began_lsn
