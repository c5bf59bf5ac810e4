"""What the outside sees of a session: how far it is, and whether the stream flows."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pgrelay.errors import KafkaUnavailable, SourceUnavailable, SpoolError
from pgrelay.metrics import Metrics
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.observer import Observer
from pgrelay.status.health import Health
from tests.clock import Clock
from tests.encode.encoding import encoder_of
from tests.relay.observed import STALLED, FakeSession, SpoolSession, watch

pytestmark = pytest.mark.usefixtures("clock")


def test_a_new_session_does_not_forget_how_far_the_server_is(
    health: Health, clock: Clock, tmp_path: Path
) -> None:
    """It begins where the slot stands. Until the server is asked again, the lag would look like none."""
    metrics = Metrics()
    observer = Observer(metrics, health)
    observer.on_slot_wal(SlotWal(clock.now, 0x9000, 0x1000, 0x800, safe=float("inf")))
    session = SpoolSession(tmp_path)
    session.encoder = encoder_of()
    session.ledger.note_wal_end(0x1000)
    observer.on_begin(session)
    watch(observer, session, clock, 1)
    assert metrics.lsns.server == 0x9000
    session.ledger.note_wal_end(0xA000)
    watch(observer, session, clock, 1)
    assert metrics.lsns.server == 0xA000


def test_the_lag_is_known_as_soon_as_the_stream_flows_again(
    health: Health, clock: Clock, tmp_path: Path
) -> None:
    """If it were 0 until the server is asked again, each reconnect would end an alert on the lag."""
    metrics = Metrics(clock.time)
    metrics.set_sources(lambda: health.ready, tmp_path)
    observer = Observer(metrics, health)
    for number, (wal_end, lag_s) in enumerate([(0x1000, 0), (0x900_0000, 60)]):
        observer.on_slot_wal(SlotWal(clock.now, wal_end, 0x1000, 0x800, safe=float("inf")))
        session = SpoolSession(tmp_path / str(number))
        session.encoder = encoder_of()
        session.ledger.note_wal_end(0x1000)
        observer.on_begin(session)
        assert health.ready
        assert metrics.lag_s() == pytest.approx(lag_s)
        observer.on_end(session, SourceUnavailable("Postgres cut the connection"))
        health.set_waiting("Postgres cut the connection")
        clock.now += 60


def test_a_start_says_whom_it_waits_for(observer: Observer, health: Health) -> None:
    observer.on_wait("Kafka")
    assert health.reason == "starting: waiting for Kafka"
    observer.on_slot_creation("shop", "the transactions that run now")
    assert health.reason == "slot shop is being created: Postgres waits for the transactions that run now"
    observer.on_wait("Postgres to begin the stream")
    assert health.reason == "starting: waiting for Postgres to begin the stream"


@pytest.fixture
def spool_failed(observer: Observer, health: Health, tmp_path: Path) -> None:
    """The spool's disk was full at row 34, in the second segment."""
    session = SpoolSession(tmp_path / "failed", range(10, 20), range(20, 35))
    observer.on_begin(session)
    health.set_waiting("the disk is full")
    for _ in range(3):
        observer.on_end(session, SpoolError("the disk is full"))


@pytest.mark.usefixtures("spool_failed")
def test_an_answer_of_kafka_does_not_end_the_stall_of_a_full_spool(
    observer: Observer, health: Health, clock: Clock, tmp_path: Path
) -> None:
    session = SpoolSession(tmp_path / "again", range(10, 12))
    observer.on_begin(session)
    session.send()
    watch(observer, session, clock, 11)
    assert health.reason == STALLED
    session.acknowledge()
    watch(observer, session, clock, 1)
    assert not health.ready


@pytest.mark.usefixtures("spool_failed")
def test_after_other_trouble_a_new_try_tells_of_the_full_spool_again(
    observer: Observer, health: Health, tmp_path: Path
) -> None:
    """As when Postgres could not be reached in between."""
    health.set_waiting("Postgres can't be reached")
    observer.on_begin(SpoolSession(tmp_path / "again"))
    assert health.reason == "the disk is full"


def test_sessions_that_end_soon_one_after_the_other_are_no_stream(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """As when Kafka refuses the first record of each: what ended them still holds."""
    for number in range(4):
        session = FakeSession()
        observer.on_begin(session)
        assert observer.retrying == (number >= 2)
        watch(observer, session, clock, 2)
        assert health.ready == (number < 2)
        observer.on_end(session, KafkaUnavailable("our clock differs"))
        health.set_waiting("our clock differs")
    session = FakeSession()
    observer.on_begin(session)
    with capture_logs() as logs:
        watch(observer, session, clock, 9)
        assert health.reason == "our clock differs"
        watch(observer, session, clock, 1)
    assert health.ready
    assert [event["event"] for event in logs] == ["streaming again"]
    assert not observer.retrying


def test_neither_recovery_nor_a_slow_end_makes_a_session_a_stream(
    observer: Observer, health: Health, clock: Clock
) -> None:
    for _ in range(3):
        session = FakeSession(recovering=True)
        observer.on_begin(session)
        watch(observer, session, clock, 12)
        assert not health.ready
        session.delivery.recovering = False
        watch(observer, session, clock, 1)
        clock.now += 30
        observer.on_end(session, KafkaUnavailable("our clock differs"))
    assert observer.retrying
