"""Publishes the state of a session: metrics, readiness, and a warning in the log if an answer is late."""

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
    """Called once a turn, but does its work only a few times a second."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._headway = Headway()
        self._stalls = Stalls(health)
        self._table_changes = TableChanges(health.troubles)
        self._unreceived = Unreceived()
        self._publish_at = 0.0
        # What the server said last before the session began.
        self._wal: SlotWal | None = None
        self._recovering = False

    def on_slot_wal(self, wal: SlotWal) -> None:
        """Publish what the server says about the slot, before a session that may never begin."""
        self._wal = wal
        self._metrics.set_slot(server=wal.wal_end, confirmed=wal.confirmed_lsn)
        self._metrics.set_slot_wal(retained=wal.retained, safe=wal.safe)

    def on_wait(self, what: str) -> None:
        """Report whose answer the start is waiting for."""
        self._health.set_starting(f"starting: waiting for {what}")

    def on_slot_creation(self, slot: str, waits_for: str) -> None:
        """Report that a slot is being created, and what the server `waits_for` with it."""
        self._health.set_starting(
            f"slot {slot} is being created: Postgres waits for {waits_for}", override=True
        )

    @property
    def retrying(self) -> bool:
        """The last sessions made no headway: until one does, what ended them still holds; nothing flows."""
        return self._headway.blocker is not None

    def on_begin(self, session: Session) -> None:
        """A session begins. Its stream flows now, or once it is known what was delivered."""
        self._recovering = session.guarantee.recovering
        self._headway.on_begin(session)
        self._stalls.on_begin(answered=False)
        # First, or readiness would come with the lag of no stream.
        self.publish(session)
        self._show()

    def on_end(self, session: Session, failure: Exception | None) -> None:
        """A session has ended: by `failure`, or because it was asked to."""
        self._headway.on_end(session, failure)

    def _show(self) -> None:
        if self._headway.blocker is not None:
            self._health.set_waiting(self._headway.blocker)
        elif self._recovering:
            self._health.set_waiting("learning from Kafka what was delivered")
        elif self._stalls.reason is not None:
            self._health.set_waiting(self._stalls.reason)  # a new stream from Postgres is no acknowledgement
        else:
            self._health.set_streaming()

    def on_turn(self, session: Session) -> None:
        if self._recovering and not session.guarantee.recovering:
            self._recovering = False
            self._headway.on_begin(session)
            self._stalls.on_begin(answered=True)
            self._show()
        if not self._recovering and (recovered := self._headway.on_turn(session)):
            self._show()
            _log.info(recovered)
        now = time.monotonic()
        if now >= self._publish_at:
            self._publish_at = now + _PUBLISH_EVERY_S
            self.publish(session)
            self._stalls.check(session, now, may_end=not self._recovering and not self.retrying)
            tables = session.server_poll.published
            if tables is not None and self._table_changes.log_changes(tables):
                self._metrics.published_tables = len(tables.names)

    def publish(self, session: Session) -> None:
        """Publish what was counted since the last call."""
        metrics, ledger, wal = self._metrics, session.ledger, session.server_poll.wal or self._wal
        metrics.set_lsns(
            received=ledger.server_lsn,
            acknowledged=ledger.flush_lsn,
            confirmed=session.confirmations.confirmed_lsn,
            server=ledger.server_lsn if wal is None else max(ledger.server_lsn, wal.wal_end),
        )
        if wal is not None:
            metrics.set_slot_wal(retained=wal.retained, safe=wal.safe)
        unacknowledged_us = ledger.oldest_commit_us
        unreceived_us = self._unreceived_us(
            session, unacknowledged_us
        )  # called each time, since it keeps state
        metrics.set_oldest_commit(unreceived_us if unacknowledged_us is None else unacknowledged_us)
        metrics.inflight_records = session.sink.in_queue
        metrics.open_transactions = len(session.assembler.open_transactions())
        metrics.spooled_bytes = session.assembler.spool.on_disk
        metrics.spooled_bytes_total += session.assembler.spool.take_written()
        metrics.delivery_errors += session.sink.failures.take_count()
        for table, op, count in session.encoder.take_counts():
            metrics.add_records(table, op, count)
        self._report_dead_letters(session)

    def _unreceived_us(self, session: Session, unacknowledged_us: int | None) -> int | None:
        """Since when commits may have been waiting to be received, in microseconds since 1970."""
        polled, now, delivered_s = session.server_poll.wal, time.monotonic(), self._metrics.last_delivered_s
        if (wal := polled or self._wal) is None:
            return None
        # In monotonic time, which is never set. Commits have the server's time.
        ahead_s = time.time() - now
        since = self._unreceived.since(
            session.ledger.server_lsn,
            wal,
            now,
            delivered=None if delivered_s is None else delivered_s - ahead_s,
            unacknowledged=None if unacknowledged_us is None else unacknowledged_us / 1_000_000 - ahead_s,
            before_stream=polled is None,
        )
        return None if since is None else int((since + ahead_s) * 1_000_000)

    def _report_dead_letters(self, session: Session) -> None:
        """Dead letters are never silent: all are counted, and the first ones are named."""
        letters = session.encoder.dead_letters
        for table, count in letters.take_counts().items():
            self._metrics.add_dead_letters(table, count)
            _log.warning("dead letters", table=table, count=count)
            self._health.troubles.record(f"dead letters of {table}", _LETTERS_CURE)
        for letter in letters.take_latest():
            _log.warning("set aside as a dead letter", table=letter.table, error=letter.error)
