"""What the outside sees of a session: metrics, readiness, and a warning in the log if an answer is late."""

import time
from typing import Final, NamedTuple, Self

import structlog

from pgrelay.errors import SpoolError
from pgrelay.metrics import Metrics
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.session import Session
from pgrelay.relay.stalls import Stalls
from pgrelay.relay.table_changes import TableChanges
from pgrelay.relay.unreceived import Unreceived
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

_PUBLISH_EVERY_S: Final = 0.25

# Sessions that end within this time, no further than they began, one after the other: nothing flows.
_SETTLED_S: Final = 10.0
_LOOP: Final = 2

_LETTERS_CURE: Final = "read the dead letters' topic: headers name LSN, column and error"


class _Progress(NamedTuple):
    """How far a session has come; `held` is the bytes of the transactions that wait for their commit."""

    server_lsn: int
    flush_lsn: int
    held: int

    @classmethod
    def of(cls, session: Session) -> Self:
        held = (transaction.frames for transaction in session.assembler.held())
        size = sum(frames.in_memory + frames.on_disk for frames in held)
        return cls(session.assembler.server_lsn, session.ledger.flush_lsn, size)

    def is_past(self, other: Self) -> bool:
        """More is held or delivered. A later LSN is no proof: segments differ from session to session."""
        holds_more = self.server_lsn > other.server_lsn and self.held > other.held
        return holds_more or self.flush_lsn > max(other.server_lsn, other.flush_lsn)


class Observer:
    """Called once a turn; does its work only a few times a second."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._stalls = Stalls(health)
        self._changes = TableChanges(health.troubles)
        self._unreceived = Unreceived()
        self._publish_at = 0.0
        self._wal_end = 0
        self._recovering = False
        # No session has got past the point at which the spool's disk last failed; why it did.
        self._spool_failed_at: _Progress | None = None
        self._spool_failure = ""
        self._began_at, self._turned_at, self._began_lsn = 0.0, 0.0, 0
        # How many sessions have ended soon, and what ended the last of them.
        self._soon, self._reason = 0, ""

    def asked(self, wal: SlotWal) -> None:
        """Publish what the server says about the slot, before a session that may never begin."""
        self._wal_end = wal.wal_end
        self._metrics.set_slot(server=wal.wal_end, confirmed=wal.confirmed_lsn)
        self._metrics.set_slot_wal(retained=wal.retained, safe=wal.safe)

    def creates_slot(self, slot: str, waits_for: str) -> None:
        """Report that a slot is being created, and what the server `waits_for` with it."""
        self._health.waiting(f"slot {slot} is being created: Postgres waits for {waits_for}")

    @property
    def trying(self) -> bool:
        """The last sessions got nowhere: until one does, what ended them still holds, and nothing flows."""
        return self._spool_failed_at is not None or self._soon >= _LOOP

    def begins(self, session: Session) -> None:
        """The stream flows from now on, or once it is known what was delivered."""
        self._began_at = self._turned_at = time.monotonic()
        self._began_lsn = session.ledger.flush_lsn
        self._recovering = session.guarantee.recovering
        self._stalls.begins(answered=False)
        self._show()

    def ended(self, session: Session, failure: Exception | None) -> None:
        """A session has ended: by `failure`, or because it was asked to.

        After a failure of the spool's disk, each session is only another try until one gets past this point.
        """
        if isinstance(failure, SpoolError):
            self._spool_failed_at, self._spool_failure = _Progress.of(session), str(failure)
            self._soon = 0
        elif failure is None or self._settled(session):
            self._soon = 0
        else:
            self._soon, self._reason = self._soon + 1, str(failure)

    def _settled(self, session: Session) -> bool:
        """Whether a session has got further, or has lasted, its recovery and its end apart."""
        lasted = not self._recovering and self._turned_at - self._began_at >= _SETTLED_S
        return lasted or session.ledger.flush_lsn > self._began_lsn

    def _show(self) -> None:
        if self.trying:
            self._health.waiting(self._reason if self._spool_failed_at is None else self._spool_failure)
        elif self._recovering:
            self._health.waiting("learning from Kafka what was delivered")
        elif self._stalls.shown is not None:
            self._health.waiting(self._stalls.shown)  # a new stream from Postgres is no acknowledgement
        else:
            self._health.streaming()

    def turned(self, session: Session) -> None:
        if self._recovering and not session.guarantee.recovering:
            self._recovering = False
            self._began_at = time.monotonic()
            self._stalls.begins(answered=True)
            self._show()
        if self._spool_failed_at is not None:
            self._watch_spool(session, self._spool_failed_at)
        self._turned_at = now = time.monotonic()
        if now >= self._publish_at:
            self._publish_at = now + _PUBLISH_EVERY_S
            self.publish(session)
            if self._soon >= _LOOP and self._settled(session):
                self._soon = 0
                self._show()
                _log.info("streaming again")
            self._stalls.watch(session, now, may_end=not self._recovering and not self.trying)
            tables = session.server_poll.published
            if tables is not None and self._changes.tell(tables):
                self._metrics.published_tables = len(tables.names)

    def publish(self, session: Session) -> None:
        """Pass on what was counted since the last call."""
        metrics, ledger = self._metrics, session.ledger
        metrics.set_lsns(
            received=ledger.server_lsn,
            acknowledged=ledger.flush_lsn,
            confirmed=session.confirmations.confirmed_lsn,
            server=max(ledger.server_lsn, session.server_poll.wal_end, self._wal_end),
        )
        if session.server_poll.wal is not None:
            metrics.set_slot_wal(retained=session.server_poll.wal.retained, safe=session.server_poll.wal.safe)
        waits_us = ledger.oldest_commit_us
        unreceived_us = self._unreceived_us(session, waits_us)  # asked each time, since it remembers
        metrics.set_oldest_commit(unreceived_us if waits_us is None else waits_us)
        metrics.inflight_records = session.sink.in_queue
        metrics.open_transactions = len(session.assembler.held())
        metrics.spooled_bytes = session.assembler.spool.on_disk
        metrics.spooled_bytes_total += session.assembler.spool.take_written()
        metrics.delivery_errors += session.sink.failures.take_count()
        for table, op, count in session.encoder.take_counts():
            metrics.add_records(table, op, count)
        self._tell_dead_letters(session)

    def _unreceived_us(self, session: Session, waits_us: int | None) -> int | None:
        """Since when commits may have been waiting to be received, in microseconds since 1970."""
        poll = session.server_poll
        if poll.wal is None:
            return None
        now_s = time.time()
        asked_s = now_s - (time.monotonic() - poll.asked_at)
        delivered_s = self._metrics.last_delivered_s
        waits_s = None if waits_us is None else waits_us / 1_000_000
        since_s = self._unreceived.since_s(
            session.ledger.server_lsn, poll.wal.wal_end, asked_s, now_s, delivered_s, waits_s
        )
        return None if since_s is None else int(since_s * 1_000_000)

    def _tell_dead_letters(self, session: Session) -> None:
        """Dead letters are never silent: each is counted, and the first of them are named."""
        letters = session.encoder.dead_letters
        for table, count in letters.take_counts().items():
            self._metrics.add_dead_letters(table, count)
            _log.warning("dead letters", table=table, count=count)
            self._health.troubles.tell(f"dead letters of {table}", _LETTERS_CURE)
        for letter in letters.take_latest():
            _log.warning("set aside as a dead letter", table=letter.table, error=letter.error)

    def _watch_spool(self, session: Session, failed_at: _Progress) -> None:
        """The server sends everything up to the failure again, unless it was rolled back meanwhile."""
        if _Progress.of(session).is_past(failed_at):
            self._spool_failed_at = None
            self._show()
            _log.info("the spool has room again")
