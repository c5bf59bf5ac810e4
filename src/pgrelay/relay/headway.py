"""Whether sessions get anywhere, or each is only another try that ends as the one before.

After a failure of the spool's disk, that is known only once a session has got past the point where it failed.
After other trouble, once one has lasted, or has delivered something.
"""

import time
from typing import Final, NamedTuple, Self

from pgrelay.errors import SpoolError
from pgrelay.relay.session import Session

# Sessions that end within this time, no further than they began, one after the other: nothing flows.
_SETTLED_S: Final = 10.0
_LOOP: Final = 2


class _Reach(NamedTuple):
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
    """That of one session after the other."""

    def __init__(self) -> None:
        # No session has got past the point at which the spool's disk last failed; why it did.
        self._spool_failed_at: _Reach | None = None
        self._spool_failure = ""
        self._began_at, self._turned_at, self._began_lsn = 0.0, 0.0, 0
        # How many sessions have ended soon, and what ended the last of them.
        self._soon, self._reason = 0, ""

    @property
    def hindrance(self) -> str | None:
        """What ended the last sessions, which got nowhere: it holds until one does. None if one did."""
        if self._spool_failed_at is not None:
            return self._spool_failure
        return self._reason if self._soon >= _LOOP else None

    def begins(self, session: Session) -> None:
        """A session begins, or is done with learning what was delivered, which does not count."""
        self._began_at = self._turned_at = time.monotonic()
        self._began_lsn = session.ledger.flush_lsn

    def turned(self, session: Session) -> str | None:
        """Call once a turn. If the hindrance is over with it: what to log."""
        self._turned_at = time.monotonic()
        if self._spool_failed_at is not None:
            # The server sends all up to the failure again, unless it was rolled back meanwhile.
            if _Reach.of(session).is_past(self._spool_failed_at):
                self._spool_failed_at = None
                return "the spool has room again"
        elif self._soon >= _LOOP and self._settled(session):
            self._soon = 0
            return "streaming again"
        return None

    def ended(self, session: Session, failure: Exception | None) -> None:
        """A session has ended: by `failure`, or because it was asked to."""
        if isinstance(failure, SpoolError):
            self._spool_failed_at, self._spool_failure = _Reach.of(session), str(failure)
            self._soon = 0
        elif failure is None or self._settled(session):
            self._soon = 0
        else:
            self._soon, self._reason = self._soon + 1, str(failure)

    def _settled(self, session: Session) -> bool:
        """Whether a session has got further, or has lasted, without its end."""
        lasted_s = self._turned_at - self._began_at
        return lasted_s >= _SETTLED_S or session.ledger.flush_lsn > self._began_lsn
