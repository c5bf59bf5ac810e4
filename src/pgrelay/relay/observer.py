"""What the outside sees of a session: metrics, readiness, and a warning in the log if an answer is late."""

import time
from typing import Final

import structlog

from pgrelay.metrics import Metrics
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.headway import Headway
from pgrelay.relay.session import Session
from pgrelay.relay.stalls import Stalls
from pgrelay.relay.table_changes import TableChanges
from pgrelay.relay.unreceived import Unreceived
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

_PUBLISH_EVERY_S: Final = 0.25

_LETTERS_CURE: Final = "read the dead letters' topic: headers name LSN, column and error"


class Observer:
    """Called once a turn; does its work only a few times a second."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._headway = Headway()
        self._stalls = Stalls(health)
        self._changes = TableChanges(health.troubles)
        self._unreceived = Unreceived()
        self._publish_at = 0.0
        # What the server last said before the session began.
        self._wal: SlotWal | None = None
        self._recovering = False

    def asked(self, wal: SlotWal) -> None:
        """Publish what the server says about the slot, before a session that may never begin."""
        self._wal = wal
        self._metrics.set_slot(server=wal.wal_end, confirmed=wal.confirmed_lsn)
        self._metrics.set_slot_wal(retained=wal.retained, safe=wal.safe)

    def awaits(self, whom: str) -> None:
        """Report whose answer the start awaits."""
        self._health.starting(f"starting: waiting for {whom}")

    def creates_slot(self, slot: str, waits_for: str) -> None:
        """Report that a slot is being created, and what the server `waits_for` with it."""
        self._health.starting(f"slot {slot} is being created: Postgres waits for {waits_for}", anyway=True)

    @property
    def trying(self) -> bool:
        """The last sessions got nowhere: until one does, what ended them still holds, and nothing flows."""
        return self._headway.hindrance is not None

    def begins(self, session: Session) -> None:
        """The stream flows from now on, or once it is known what was delivered."""
        self._recovering = session.guarantee.recovering
        self._headway.begins(session)
        self._stalls.begins(answered=False)
        # First, or we would be ready with the lag of no stream.
        self.publish(session)
        self._show()

    def ended(self, session: Session, failure: Exception | None) -> None:
        """A session has ended: by `failure`, or because it was asked to."""
        self._headway.ended(session, failure)

    def _show(self) -> None:
        if self._headway.hindrance is not None:
            self._health.waiting(self._headway.hindrance)
        elif self._recovering:
            self._health.waiting("learning from Kafka what was delivered")
        elif self._stalls.shown is not None:
            self._health.waiting(self._stalls.shown)  # a new stream from Postgres is no acknowledgement
        else:
            self._health.streaming()

    def turned(self, session: Session) -> None:
        if self._recovering and not session.guarantee.recovering:
            self._recovering = False
            self._headway.begins(session)
            self._stalls.begins(answered=True)
            self._show()
        if not self._recovering and (over := self._headway.turned(session)):
            self._show()
            _log.info(over)
        now = time.monotonic()
        if now >= self._publish_at:
            self._publish_at = now + _PUBLISH_EVERY_S
            self.publish(session)
            self._stalls.watch(session, now, may_end=not self._recovering and not self.trying)
            tables = session.server_poll.published
            if tables is not None and self._changes.tell(tables):
                self._metrics.published_tables = len(tables.names)

    def publish(self, session: Session) -> None:
        """Pass on what was counted since the last call."""
        metrics, ledger, wal = self._metrics, session.ledger, session.server_poll.wal or self._wal
        metrics.set_lsns(
            received=ledger.server_lsn,
            acknowledged=ledger.flush_lsn,
            confirmed=session.confirmations.confirmed_lsn,
            server=ledger.server_lsn if wal is None else max(ledger.server_lsn, wal.wal_end),
        )
        if wal is not None:
            metrics.set_slot_wal(retained=wal.retained, safe=wal.safe)
        waits_us = ledger.oldest_commit_us
        unreceived_us = self._unreceived_us(session, waits_us)  # asked each time, since it remembers
        metrics.set_oldest_commit(unreceived_us if waits_us is None else waits_us)
        metrics.inflight_records = session.sink.in_queue
        metrics.open_transactions = len(session.assembler.open_transactions())
        metrics.spooled_bytes = session.assembler.spool.on_disk
        metrics.spooled_bytes_total += session.assembler.spool.take_written()
        metrics.delivery_errors += session.sink.failures.take_count()
        for table, op, count in session.encoder.take_counts():
            metrics.add_records(table, op, count)
        self._tell_dead_letters(session)

    def _unreceived_us(self, session: Session, waits_us: int | None) -> int | None:
        """Since when commits may have been waiting to be received, in microseconds since 1970."""
        polled, now, delivered_s = session.server_poll.wal, time.monotonic(), self._metrics.last_delivered_s
        if (wal := polled or self._wal) is None:
            return None
        # By the clock that is never set. Commits bear the server's time.
        ahead_s = time.time() - now
        since = self._unreceived.since(
            session.ledger.server_lsn,
            wal,
            now,
            delivered=None if delivered_s is None else delivered_s - ahead_s,
            waits=None if waits_us is None else waits_us / 1_000_000 - ahead_s,
            before=polled is None,
        )
        return None if since is None else int((since + ahead_s) * 1_000_000)

    def _tell_dead_letters(self, session: Session) -> None:
        """Dead letters are never silent: each is counted, and the first of them are named."""
        letters = session.encoder.dead_letters
        for table, count in letters.take_counts().items():
            self._metrics.add_dead_letters(table, count)
            _log.warning("dead letters", table=table, count=count)
            self._health.troubles.tell(f"dead letters of {table}", _LETTERS_CURE)
        for letter in letters.take_latest():
            _log.warning("set aside as a dead letter", table=letter.table, error=letter.error)
