"""What the outside sees of a session: metrics, readiness, and a word in the log when Kafka stalls."""

import time
from typing import Final

import structlog

from pgrelay.http import Health
from pgrelay.metrics import Metrics
from pgrelay.relay.session import Session

_log = structlog.get_logger(__name__)

_PUBLISH_EVERY_S: Final = 0.25

# Records that wait this long while librdkafka complains mean that Kafka is away, not merely slow.
_STALLED_AFTER_S: Final = 3.0


class Observer:
    """Called once a turn; does anything only a few times a second."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._publish_at = 0.0
        self._acknowledged_at = 0.0
        self._in_queue = 0
        self._stalled = False
        self._spooled = 0

    def turned(self, session: Session) -> None:
        now = time.monotonic()
        if now >= self._publish_at:
            self._publish_at = now + _PUBLISH_EVERY_S
            self.publish(session)
            self._watch_kafka(session, now)

    def publish(self, session: Session) -> None:
        """Hand over what was counted since the last time."""
        metrics, ledger = self._metrics, session.ledger
        metrics.set_positions(
            received=ledger.server_lsn,
            acknowledged=ledger.flush_lsn,
            confirmed=session.confirmed_lsn,
            server=max(ledger.server_lsn, session.wal_end),
        )
        metrics.set_oldest_commit(ledger.oldest_commit_us)
        metrics.set_inflight_records(session.sink.in_queue)
        metrics.set_open_transactions(session.assembler.open_transactions)
        metrics.set_spooled_bytes(session.spool.on_disk)
        metrics.add_spooled_bytes(session.spool.take_written())
        metrics.add_delivery_errors(session.sink.take_failures())
        for table, op, count in session.encoder.take_counts():
            metrics.add_records(table, op, count)

    def _watch_kafka(self, session: Session, now: float) -> None:
        """Kafka is away where records wait, none is acknowledged, and librdkafka complains."""
        sink = session.sink
        if sink.in_queue == 0 or sink.acknowledged:
            self._acknowledged_at = now
            sink.acknowledged = False
            sink.problem = None
            if self._stalled:
                self._stalled = False
                self._health.streaming()
                _log.info("Kafka acknowledges again")
        elif (
            sink.problem is not None and not self._stalled and now > self._acknowledged_at + _STALLED_AFTER_S
        ):
            self._stalled = True
            self._health.waiting(f"Kafka does not acknowledge: {sink.problem}")
            _log.warning(
                "Kafka does not acknowledge; reading stops when the queue is full, nothing is lost",
                reason=sink.problem,
                records=sink.in_queue,
            )
