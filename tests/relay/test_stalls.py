"""What readiness says of late answers: a stall is reported once, and ends with an answer.

It also ends when nothing waits any more.
"""

from typing import Final

import pytest
from confluent_kafka import ThrottleEvent
from structlog.testing import capture_logs

from pgrelay.encode.avro.schema import Schemas
from pgrelay.encode.needs import FactsNeeded, Need, TopicNeeded
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.observer import Observer
from pgrelay.status.health import Health
from pgrelay.wire.pgoutput import Relation
from tests.clock import Clock
from tests.relay.observed import STALLED, FakeSession, watch

pytestmark = pytest.mark.usefixtures("clock")

AGAIN = "Kafka acknowledges again"


def stalled(observer: Observer, clock: Clock, *, committing: bool) -> FakeSession:
    """A session whose commit, or else its one record, Kafka leaves without an answer."""
    session = FakeSession()
    observer.on_begin(session)
    session.side_task.committing = committing
    if not committing:
        session.send()
    watch(observer, session, clock, 11)
    return session


def flow(observer: Observer, session: FakeSession, clock: Clock) -> None:
    """A second in which Kafka takes another record."""
    session.acknowledge()
    watch(observer, session, clock, 1)


def test_a_successful_commit_ends_a_stall_even_if_nothing_follows(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = stalled(observer, clock, committing=True)
    assert health.reason == STALLED
    session.side_task.committing = False
    with capture_logs() as logs:
        watch(observer, session, clock, 3)
    assert health.ready
    assert [event["event"] for event in logs] == [AGAIN]


def test_a_new_stream_to_postgres_does_not_end_a_stall(
    observer: Observer, health: Health, clock: Clock
) -> None:
    stalled(observer, clock, committing=False)
    again = FakeSession()
    again.send()
    observer.on_begin(again)
    assert health.reason == STALLED
    watch(observer, again, clock, 3)
    assert health.reason == STALLED
    again.acknowledge()
    watch(observer, again, clock, 1)
    assert health.ready


def test_an_acknowledged_record_ends_a_stall(observer: Observer, health: Health, clock: Clock) -> None:
    session = stalled(observer, clock, committing=False)
    assert health.reason == STALLED
    session.acknowledge()
    with capture_logs() as logs:
        watch(observer, session, clock, 3)
    assert health.ready
    assert [event["event"] for event in logs] == [AGAIN]


def test_a_position_that_waits_long_is_a_stall_even_if_rows_flow(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """Its topic may have another leader than those of rows. Without the position the slot never moves."""
    session = FakeSession()
    observer.on_begin(session)
    session.send()
    with capture_logs() as logs:
        for session.delivery.waits_s in range(1, 61):
            flow(observer, session, clock)
            assert health.ready == (session.delivery.waits_s <= 30)
        assert "no answer about the position for 30 s; the slot does not move" in (health.reason or "")
        session.delivery.waits_s = None
        flow(observer, session, clock)
    assert health.ready
    assert [event["log_level"] for event in logs] == ["warning", "info"]


def test_a_partition_that_accepts_nothing_is_a_stall_even_if_others_flow(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """The oldest transaction has a record in that partition, so the slot never moves."""
    session = FakeSession()
    observer.on_begin(session)
    session.send()
    stuck = session.ledger.begin(commit_us=0)
    stuck.records = 2
    with capture_logs() as logs:
        for seconds in range(1, 71):
            if seconds == 10:
                stuck.acknowledged = 1
            flow(observer, session, clock)
            assert health.ready == (seconds <= 40)
        assert "no answer about the oldest records for 30 s, but about others" in (health.reason or "")
        stuck.acknowledged = 2
        flow(observer, session, clock)
    assert health.ready
    assert [event["log_level"] for event in logs] == ["warning", "info"]


def test_a_transaction_that_the_server_sends_slowly_is_no_stall(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    begun = session.ledger.begin(commit_us=0)
    begun.records = begun.acknowledged = 2
    session.send()
    for _ in range(60):
        flow(observer, session, clock)
        assert health.ready


def test_a_session_that_reads_its_position_is_not_ready_because_nothing_waits(
    observer: Observer, health: Health, clock: Clock
) -> None:
    stalled(observer, clock, committing=True)
    session = FakeSession(recovering=True)
    observer.on_begin(session)
    watch(observer, session, clock, 3)
    assert health.reason == "learning from Kafka what was delivered"
    session.delivery.recovering = False
    watch(observer, session, clock, 1)
    assert health.ready


NEEDS: Final[dict[str, Need]] = {
    "Postgres about table public.t": FactsNeeded(Relation(None, 16384, "public", "t", "d", ()), None),
    "Kafka about topic app.public.t": TopicNeeded("app.public.t"),
    "Kafka or the schema registry about topic app.public.t": TopicNeeded(
        "app.public.t", Schemas("app.public.t", "table public.t", None, "{}")
    ),
}


@pytest.mark.parametrize("asked", NEEDS)
def test_an_answer_that_the_encoder_waits_for_is_late_after_a_while(
    observer: Observer, health: Health, clock: Clock, asked: str
) -> None:
    """A broker may hang just when the first row of a table makes us ask for its topic."""
    session = FakeSession()
    observer.on_begin(session)
    watch(observer, session, clock, 60)
    session.needing.need = NEEDS[asked]
    watch(observer, session, clock, 10)
    assert health.ready
    with capture_logs() as logs:
        watch(observer, session, clock, 3)
        assert health.reason == f"no answer for 10 s from {asked}"
        session.needing.need = None
        watch(observer, session, clock, 1)
    assert health.ready
    assert [event["log_level"] for event in logs] == ["warning", "info"]


def test_a_record_sent_after_a_late_answer_has_its_own_time(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """An announcement's record follows its topic."""
    session = FakeSession()
    observer.on_begin(session)
    session.needing.need = TopicNeeded("app.public.t")
    watch(observer, session, clock, 15)
    session.send()
    watch(observer, session, clock, 9)
    assert health.reason == "no answer for 10 s from Kafka about topic app.public.t"
    watch(observer, session, clock, 3)
    assert health.reason == STALLED


def test_answers_that_come_keep_it_ready_however_many_are_needed(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    for number in range(60):
        session.needing.need = TopicNeeded(f"app.public.t{number}")
        watch(observer, session, clock, 1)
        assert health.ready


def test_a_new_session_first_meets_again_what_the_last_one_waited_for(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    session.needing.need = TopicNeeded("app.public.t")
    watch(observer, session, clock, 12)
    late = "no answer for 10 s from Kafka about topic app.public.t"
    assert health.reason == late
    with capture_logs() as logs:
        again = FakeSession()
        observer.on_begin(again)
        watch(observer, again, clock, 2)
        again.needing.need = TopicNeeded("app.public.t")
        watch(observer, again, clock, 30)
        assert (health.reason, logs) == (late, [])
        again.needing.need = TopicNeeded("app.public.another")
        watch(observer, again, clock, 1)
    assert health.ready
    assert [event["event"] for event in logs] == ["no answer is late any more"]


def test_a_stall_is_over_if_a_new_session_waits_for_nothing(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """What it waited for may have been rolled back, or another relay may have sent it."""
    stalled(observer, clock, committing=False)
    session = FakeSession()
    observer.on_begin(session)
    watch(observer, session, clock, 3)
    assert health.reason == STALLED
    watch(observer, session, clock, 1)
    assert health.ready


HELD_BACK = "Postgres waits for a standby of synchronized_standby_slots"


def awaiting(standby: bool) -> SlotWal:
    event = "WaitForStandbyConfirmation" if standby else "WalSenderMain"
    return SlotWal(0, 0x9000, 0x1000, 0x800, float("inf"), event)


def test_a_standby_that_holds_up_postgres_is_a_stall(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    session.postgres.wal = awaiting(standby=True)
    with capture_logs() as logs:
        watch(observer, session, clock, 11)
        assert health.ready
        watch(observer, session, clock, 3)
        assert health.reason == HELD_BACK
        assert [trouble.cure for trouble in health.troubles.latest()] == [
            "start the standby; or take its slot out of synchronized_standby_slots, and SELECT "
            "pg_reload_conf()"
        ]
        session.postgres.wal = awaiting(standby=False)
        watch(observer, session, clock, 1)
    assert health.ready
    assert [event["event"] for event in logs] == [
        "Postgres sends nothing before a standby has it; nothing is lost",
        "Postgres sends again",
    ]


def test_a_standby_that_is_merely_behind_is_no_stall(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    session.postgres.wal = awaiting(standby=True)
    for second in range(60):
        session.ledger.note_wal_end(0x1000 + second)
        watch(observer, session, clock, 1)
        assert health.ready


def test_nothing_is_logged_if_nothing_waits(observer: Observer, health: Health, clock: Clock) -> None:
    session = FakeSession()
    with capture_logs() as logs:
        observer.on_begin(session)
        watch(observer, session, clock, 60)
    assert health.ready
    assert logs == []


def test_a_quota_that_is_used_up_is_told_at_once_but_rarely(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    session.send()
    with capture_logs() as logs:
        for _ in range(60):
            session.sink.failures.on_throttle(ThrottleEvent("127.0.0.1:9092/1", 1, 4.6))
            flow(observer, session, clock)
        assert health.ready
        session.sink.failures.on_throttle(ThrottleEvent("127.0.0.1:9092/1", 1, 20.0))
        watch(observer, session, clock, 30)
        assert health.ready
        watch(observer, session, clock, 1)
    assert [event["event"] for event in logs] == [
        "Kafka throttles us: a quota is used up",
        "Kafka does not acknowledge; reading stops when the queue is full, nothing is lost",
    ]
    assert logs[0]["delays_s"] == 4.6
    assert health.reason == ("Kafka does not acknowledge: it throttles us by a quota (no answer for 30 s)")


def test_a_short_delay_by_a_quota_is_not_worth_a_line(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.on_begin(session)
    session.sink.failures.on_throttle(ThrottleEvent("127.0.0.1:9092/1", 1, 0.4))
    with capture_logs() as logs:
        watch(observer, session, clock, 3)
    assert logs == []
