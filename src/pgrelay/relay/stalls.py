"""Detects that an answer is late, from Kafka or whatever else a session waits for; shown, and logged once."""

import math
import time
from typing import Final, NamedTuple

import structlog

from pgrelay.encode.needs import FactsNeeded, Need
from pgrelay.kafka.sink import Sink
from pgrelay.postgres.slots import STANDBY_CURE
from pgrelay.relay.session import Session
from pgrelay.status.health import Health

_log = structlog.get_logger(__name__)

# Kafka that acknowledges nothing for this long is down, not merely slow. The first applies if librdkafka
# reports an error, the second if not: for a broker that hangs, it does so only once a request has timed out.
_TROUBLED_S: Final = 3.0
_SILENT_S: Final = 10.0
# The same for what the slot waits for while other records flow: many of those may be queued ahead of it.
_LATE_S: Final = 30.0

# After a reconnection: how soon a session runs into what the one before it waited for.
_RECURS_WITHIN_S: Final = 3.0

_POSITION_LATE: Final = f"no answer about the position for {_LATE_S:g} s; the slot does not move"
_OLDEST_LATE: Final = (
    f"no answer about the oldest records for {_LATE_S:g} s, but about others: is a partition unavailable, or "
    "short of in-sync replicas? The slot does not move"
)


class _Stall(NamedTuple):
    """What is logged when it has `begun` and when it is `over`, and the cure that is shown."""

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
_HELD_BACK: Final = _Stall(
    "Postgres sends nothing before a standby has it; nothing is lost",
    STANDBY_CURE,
    "Postgres sends again",
)

# The shortest delay that is logged, how often at most, and how long it counts as recent.
_THROTTLED_S: Final = 1.0
_THROTTLED_EVERY_S: Final = 600.0
_THROTTLED_RECENT_S: Final = 60.0
_THROTTLED: Final = "Kafka throttles us: a quota is used up"
_THROTTLED_CURE: Final = "raise producer_byte_rate or request_percentage for our user or client.id"


class _StandbyNeeded(NamedTuple):
    """Postgres holds back what follows `server_lsn` until a standby has it."""

    server_lsn: int


class Stalls:
    """Notices when nothing flows because an answer is late, and when that is over.

    `reason` is why nothing flows, in one line; None if no answer is late.
    """

    def __init__(self, health: Health) -> None:
        self.reason: str | None = None
        self._health = health
        self._stalled: _Stall | None = None
        self._begun_at = 0.0
        self._acknowledged_at = 0.0
        # What the slot waits for, and since when.
        self._oldest_progress: tuple[int, int] | None = None
        self._oldest_progress_at = 0.0
        # Whose answer all else waits for, and since when.
        self._needed: Need | _StandbyNeeded | None = None
        self._needed_since = 0.0
        self._throttled_at = self._throttling_logged_at = -math.inf
        # Whether a new session may still run into what the one before it waited for.
        self._may_recur = False

    def on_begin(self, *, answered: bool) -> None:
        """A session begins, or resumes: what was late may be late again, unless Kafka has just `answered`."""
        self._begun_at = self._acknowledged_at = time.monotonic()
        self._oldest_progress = self._needed = None
        self._may_recur = self._stalled is not None and not answered

    def check(self, session: Session, now: float, *, may_end: bool) -> None:
        """Call a few times a second. `may_end`: nothing else keeps the session from streaming.

        Kafka is late if records or a commit wait and none is acknowledged. Or if only those that the slot
        waits for are not: their partition may be led by another broker.
        """
        sink = session.sink
        self._check_throttling(sink.failures.take_throttled_s(), now)
        late = self._late(session, now)
        if sink.take_acknowledged():
            self._acknowledged_at = now
            if late is not None:
                self._unacknowledged(sink, late, now)
            else:
                self._recovered(may_end)
        elif sink.in_queue == 0 and not session.side_task.committing:
            # A stall may have held up only a commit, with nothing queued behind it.
            self._acknowledged_at = now
            self._check_needed(_needed(session), now, may_end)
        elif now - self._acknowledged_at > (timeout_s := self._timeout_s(sink, now)):
            self._unacknowledged(sink, sink.failures.problem or f"no answer for {timeout_s:g} s", now)

    def _timeout_s(self, sink: Sink, now: float) -> float:
        """How long Kafka may acknowledge nothing. A quota delays its answers, but is no outage."""
        if self._recently_throttled(now):
            return _LATE_S
        return _SILENT_S if sink.failures.problem is None else _TROUBLED_S

    def _recently_throttled(self, now: float) -> bool:
        return now - self._throttled_at <= _THROTTLED_RECENT_S

    def _check_throttling(self, delay_s: float, now: float) -> None:
        """A quota is no stall, but it slows everything down, and nothing else shows that."""
        if delay_s < _THROTTLED_S:
            return
        self._throttled_at = now
        if now - self._throttling_logged_at >= _THROTTLED_EVERY_S:
            self._throttling_logged_at = now
            _log.warning(_THROTTLED, delays_s=round(delay_s, 1), cure=_THROTTLED_CURE)
            self._health.troubles.record(_THROTTLED, _THROTTLED_CURE)

    def _late(self, session: Session, now: float) -> str | None:
        """What the slot has waited for too long; None if nothing."""
        progress = session.guarantee.oldest_progress
        if progress is None or progress != self._oldest_progress:
            self._oldest_progress, self._oldest_progress_at = progress, now
        elif now - self._oldest_progress_at > _LATE_S:
            return _OLDEST_LATE
        return _POSITION_LATE if (session.guarantee.position_unacknowledged_s or 0.0) > _LATE_S else None

    def _check_needed(self, needed: Need | _StandbyNeeded | None, now: float, may_end: bool) -> None:
        """Nothing waits for Kafka's acknowledgement, but everything may be waiting for another answer."""
        if needed != self._needed:
            self._may_recur = self._may_recur and self._needed is None
            self._needed, self._needed_since = needed, now
        if needed is not None and now - self._needed_since > _SILENT_S:
            self._unanswered(needed)
        elif not self._may_recur or (needed is None and now - self._begun_at > _RECURS_WITHIN_S):
            self._recovered(may_end)

    def _unacknowledged(self, sink: Sink, reason: str, now: float) -> None:
        if self._recently_throttled(now):
            reason = f"it throttles us by a quota ({reason})"
        shown = f"Kafka does not acknowledge: {reason}"
        self._stall(_UNACKNOWLEDGED, shown, reason=reason, records=sink.in_queue)

    def _unanswered(self, needed: Need | _StandbyNeeded) -> None:
        if isinstance(needed, _StandbyNeeded):
            self._stall(_HELD_BACK, "Postgres waits for a standby of synchronized_standby_slots")
        else:
            reason = f"no answer for {_SILENT_S:g} s from {_describe_need(needed)}"
            self._stall(_UNANSWERED, reason, reason=reason)

    def _stall(self, stall: _Stall, shown: str, **details: object) -> None:
        """Show why nothing flows, and log it once, with the details."""
        self.reason = shown
        self._health.set_waiting(shown)
        if self._stalled is None:
            self._stalled = stall
            self._health.troubles.record(shown, stall.cure)
            _log.warning(stall.begun, **details)

    def _recovered(self, may_end: bool) -> None:
        """No answer is late."""
        if self._stalled is not None and may_end:
            self._health.set_streaming()
            _log.info(self._stalled.over)
            self._stalled = self.reason = None


def _needed(session: Session) -> Need | _StandbyNeeded | None:
    """What everything in the session waits for; None if nothing."""
    if session.encoder.need is not None:
        return session.encoder.need
    wal = session.server_poll.wal
    return _StandbyNeeded(session.ledger.server_lsn) if wal is not None and wal.awaits_standby else None


def _describe_need(need: Need) -> str:
    """Who is asked, and about what."""
    if isinstance(need, FactsNeeded):
        return f"Postgres about table {need.relation}"
    return f"Kafka{'' if need.schemas is None else ' or the schema registry'} about topic {need.topic}"
