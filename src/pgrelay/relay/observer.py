"""What the outside sees of a session: metrics, readiness, and a warning in the log if an answer is late."""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

import structlog

from pgrelay.encode.needs import FactsNeeded, Need
from pgrelay.kafka.sink import Sink
from pgrelay.metrics import Metrics
from pgrelay.postgres.catalog import SlotWal
from pgrelay.relay.publications import MOST_NAMED, PublishedTables
from pgrelay.relay.session import Session
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

_PUBLISH_EVERY_S: Final = 0.25

# Kafka that acknowledges nothing for this long is away, not merely slow. The first applies if librdkafka
# complains, the second if it does not: if a broker hangs, it complains only once a request has timed out.
_TROUBLED_S: Final = 3.0
_SILENT_S: Final = 10.0
# The same for what the slot waits for while other records flow: many of them may be queued ahead of it.
_LATE_S: Final = 30.0

_POSITION_LATE: Final = f"no answer about the position for {_LATE_S:g} s; the slot does not move"
_OLDEST_LATE: Final = (
    f"no answer about the oldest records for {_LATE_S:g} s, but about others: is a partition unavailable, or "
    "short of in-sync replicas? The slot does not move"
)

_LETTERS_CURE: Final = "read the dead letters' topic: headers name LSN, column and error"
_LEFT: Final = (
    "tables left the publication",
    "if they should be relayed: ALTER PUBLICATION ... ADD TABLE, then copy them again",
)
_DROPPED: Final = (
    "published tables were dropped",
    "consumers keep their rows, since Postgres sends nothing for a DROP; one that was made anew and has not "
    "joined the publication: ALTER PUBLICATION ... ADD TABLE, then copy it",
)
_RENAMED: Final = (
    "published tables were renamed",
    "they are relayed under the new name: adapt consumers, and what names them in records; if another table "
    "has the old name now, and should be relayed: ALTER PUBLICATION ... ADD TABLE, then copy it",
)


class _Stall(NamedTuple):
    """What is logged when it begins and when it is `over`, and what may end it."""

    begun: str
    cure: str
    over: str


_UNACKNOWLEDGED: Final = _Stall(
    "Kafka does not acknowledge; reading stops when the queue is full, nothing is lost",
    "nothing is lost; check that the brokers of sink.kafka run and answer",
    "Kafka acknowledges again",
)
_UNANSWERED: Final = _Stall(
    "an answer is late; nothing is relayed meanwhile, nothing is lost",
    "nothing is lost; check that it runs and answers",
    "no answer is late any more",
)


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
        self._publish_at = 0.0
        self._acknowledged_at = 0.0
        self._standing: tuple[int, int] | None = None
        self._stands_since = 0.0
        self._stalled: _Stall | None = None
        self._shown = ""  # why nothing flows
        self._need: Need | None = None
        self._needed_since = 0.0
        self._recovering = False
        self._spool_failed_at: _Progress | None = None
        self._published: Mapping[int, str] | None = None

    def asked(self, wal: SlotWal) -> None:
        """Publish what the server says about the slot, before a session that may never begin."""
        self._metrics.set_slot(server=wal.wal_end, confirmed=wal.confirmed_lsn)
        self._metrics.set_slot_wal(retained=wal.retained, safe=wal.safe)

    def creates_slot(self, slot: str, waits_for: str) -> None:
        """Report that a slot is being created, and what the server `waits_for` with it."""
        self._health.waiting(f"slot {slot} is being created: Postgres waits for {waits_for}")

    @property
    def spool_failing(self) -> bool:
        """No session has got past the point at which the spool's disk last failed."""
        return self._spool_failed_at is not None

    def spool_failed(self, session: Session) -> None:
        """Until a session gets past this point, each is only another try, and nothing flows."""
        self._spool_failed_at = _Progress.of(session)

    def begins(self, session: Session) -> None:
        """The stream flows from now on, or once it is known what was delivered."""
        self._recovering = session.guarantee.recovering
        self._acknowledged_at = time.monotonic()
        self._standing = None
        if self.spool_failing:
            # The reported reason still holds: this is one more try.
            return
        if self._recovering:
            self._health.waiting("learning from Kafka what was delivered")
        elif self._stalled is not None:
            self._health.waiting(self._shown)  # a new stream from Postgres is no acknowledgement
        else:
            self._health.streaming()

    def turned(self, session: Session) -> None:
        if self._recovering and not session.guarantee.recovering:
            self.begins(session)
        if self._spool_failed_at is not None:
            self._watch_spool(session, self._spool_failed_at)
        now = time.monotonic()
        if now >= self._publish_at:
            self._publish_at = now + _PUBLISH_EVERY_S
            self.publish(session)
            self._watch_kafka(session, now)
            if session.server_poll.published is not None:
                self._watch_tables(session.server_poll.published)

    def publish(self, session: Session) -> None:
        """Pass on what was counted since the last call."""
        metrics, ledger = self._metrics, session.ledger
        metrics.set_lsns(
            received=ledger.server_lsn,
            acknowledged=ledger.flush_lsn,
            confirmed=session.confirmations.confirmed_lsn,
            server=max(ledger.server_lsn, session.server_poll.wal_end),
        )
        if session.server_poll.wal is not None:
            metrics.set_slot_wal(retained=session.server_poll.wal.retained, safe=session.server_poll.wal.safe)
        metrics.set_oldest_commit(ledger.oldest_commit_us)
        metrics.set_inflight_records(session.sink.in_queue)
        metrics.set_open_transactions(len(session.assembler.held()))
        metrics.set_spooled_bytes(session.assembler.spool.on_disk)
        metrics.add_spooled_bytes(session.assembler.spool.take_written())
        metrics.add_delivery_errors(session.sink.take_failures())
        for table, op, count in session.encoder.take_counts():
            metrics.add_records(table, op, count)
        self._tell_dead_letters(session)

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
            self._health.streaming()
            _log.info("the spool has room again")

    def _watch_kafka(self, session: Session, now: float) -> None:
        """Kafka is away if records or a commit wait and none is acknowledged.

        Or if only those that the slot waits for are not: another broker may lead their partition.
        """
        sink = session.sink
        late = self._late(session, now)
        if sink.take_acknowledged():
            sink.problem = None
            self._acknowledged_at = now
            if late is not None:
                self._unacknowledged(sink, late)
            else:
                self._recovered()
        elif sink.in_queue == 0 and not session.errand.committing:
            # A stall may have held up only a commit, with nothing queued behind it.
            self._acknowledged_at = now
            self._watch_need(session.encoder.need, now)
        elif now - self._acknowledged_at > (_SILENT_S if sink.problem is None else _TROUBLED_S):
            self._unacknowledged(sink, sink.problem or f"no answer for {_SILENT_S:g} s")

    def _late(self, session: Session, now: float) -> str | None:
        """What the slot has waited for too long; None if nothing."""
        standing = session.guarantee.standing
        if standing is None or standing != self._standing:
            self._standing, self._stands_since = standing, now
        elif now - self._stands_since > _LATE_S:
            return _OLDEST_LATE
        return _POSITION_LATE if session.confirmations.position_waits_s > _LATE_S else None

    def _recovered(self) -> None:
        """No answer is late."""
        if self._stalled is not None and not self._recovering and not self.spool_failing:
            self._health.streaming()
            _log.info(self._stalled.over)
            self._stalled = None

    def _unacknowledged(self, sink: Sink, reason: str) -> None:
        shown = f"Kafka does not acknowledge: {reason}"
        self._stall(_UNACKNOWLEDGED, shown, reason=reason, records=sink.in_queue)

    def _stall(self, stall: _Stall, shown: str, **details: object) -> None:
        """Show why nothing flows, and log it once, with the details."""
        self._shown = shown
        self._health.waiting(shown)
        if self._stalled is None:
            self._stalled = stall
            self._health.troubles.tell(shown, stall.cure)
            _log.warning(stall.begun, **details)

    def _watch_need(self, need: Need | None, now: float) -> None:
        """Nothing waits for Kafka. But the encoder may wait for an answer, and all else behind it."""
        if need is not self._need:
            self._need, self._needed_since = need, now
        if need is None or now - self._needed_since <= _SILENT_S:
            self._recovered()
        else:
            reason = f"no answer for {_SILENT_S:g} s from {_asked(need)}"
            self._stall(_UNANSWERED, reason, reason=reason)

    def _watch_tables(self, tables: PublishedTables) -> None:
        """Log changes: the stream does not report a table that was dropped, renamed or unpublished."""
        before, now = self._published, tables.names
        if before == now:
            return
        self._published = now
        self._metrics.set_published_tables(len(now))
        if before is None:
            return
        gone = before.keys() - now.keys()
        self._tell_tables(_LEFT, [before[oid] for oid in gone & tables.left])
        self._tell_tables(_DROPPED, [before[oid] for oid in gone - tables.left])
        stayed = before.keys() & now.keys()
        self._tell_tables(
            _RENAMED, [f"{before[oid]} to {now[oid]}" for oid in stayed if before[oid] != now[oid]]
        )
        if joined := [now[oid] for oid in now.keys() - before.keys()]:
            _log.info("tables joined the publication", tables=sorted(joined)[:MOST_NAMED], count=len(joined))

    def _tell_tables(self, event: tuple[str, str], tables: list[str]) -> None:
        """`event`: what happened to these, and the cure."""
        if tables:
            (what, cure), named = event, sorted(tables)[:MOST_NAMED]
            _log.warning(what, tables=named, count=len(tables), cure=cure)
            self._health.troubles.tell(f"{what}: {', '.join(named)}", cure)


def _asked(need: Need) -> str:
    """Who is asked, and about what."""
    if isinstance(need, FactsNeeded):
        return f"Postgres about table {need.relation}"
    return f"Kafka{'' if need.schemas is None else ' or the schema registry'} about topic {need.topic}"
