"""What the outside sees of a session: how far it is, and how long the disk of the spool is full."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import KafkaUnavailable, SourceUnavailable, SpoolError
from pgrelay.metrics import Metrics
from pgrelay.postgres.slots import SlotWal
from pgrelay.relay.observer import Observer
from pgrelay.status.health import Health
from tests.clock import Clock
from tests.encode.encoding import encoder_of
from tests.relay.observed import STALLED, FakeSession, watch
from tests.wire import build
from tests.wire.build import xlog_data

pytestmark = pytest.mark.usefixtures("clock")


class SpoolSession(FakeSession):
    """Receives `segments` of transaction 7, the last one without its end. Row i stands at LSN i."""

    def __init__(self, directory: Path, *segments: range) -> None:
        super().__init__()
        spool = Spool(directory)
        spool.open()
        self.assembler = Assembler(spool, PreparedStore(spool), memory_limit=1 << 20)
        for number, rows in enumerate(segments):
            if number > 0:
                self.receive(build.stream_stop(), rows[0])
            self.receive(build.stream_start(7, first=number == 0), rows[0])
            for row in rows:
                self.receive(build.insert(1, (str(row),), xid=7), row)

    def receive(self, message: bytes, lsn: int) -> None:
        self.assembler.receive(xlog_data(message, lsn))


def test_a_new_session_does_not_forget_how_far_the_server_is(
    health: Health, clock: Clock, tmp_path: Path
) -> None:
    """It begins where the slot stands. Until the server is asked again, the lag would look like none."""
    metrics = Metrics()
    observer = Observer(metrics, health)
    observer.asked(SlotWal(wal_end=0x9000, confirmed_lsn=0x1000, restart_lsn=0x800, safe=float("inf")))
    session = SpoolSession(tmp_path)
    session.encoder = encoder_of()
    session.ledger.seen(0x1000)
    observer.begins(session)
    watch(observer, session, clock, 1)
    assert metrics.lsns.server == 0x9000
    session.ledger.seen(0xA000)
    watch(observer, session, clock, 1)
    assert metrics.lsns.server == 0xA000


@pytest.fixture
def spool_failed(observer: Observer, health: Health, tmp_path: Path) -> None:
    """The spool's disk was full at row 34, in the second segment."""
    session = SpoolSession(tmp_path / "failed", range(10, 20), range(20, 35))
    observer.begins(session)
    health.waiting("the disk is full")
    for _ in range(3):
        observer.ended(session, SpoolError("the disk is full"))


@pytest.mark.usefixtures("spool_failed")
@pytest.mark.parametrize(
    ("segments", "ready"),
    [
        pytest.param([range(10, 18)], False, id="less"),
        pytest.param([range(10, 25)], False, id="as much in one segment"),
        pytest.param([range(10, 30), range(30, 33)], False, id="a later segment, but no more of it"),
        pytest.param([range(10, 30), range(30, 36)], True, id="more"),
    ],
)
def test_a_full_spool_is_over_once_more_of_the_transaction_is_held(
    observer: Observer, health: Health, clock: Clock, tmp_path: Path, segments: list[range], ready: bool
) -> None:
    """Each connection's segments are others: one may begin later than that in which the disk was full."""
    session = SpoolSession(tmp_path / "again", *segments)
    with capture_logs() as logs:
        observer.begins(session)
        watch(observer, session, clock, 3)
    assert health.ready == ready
    assert [event["event"] for event in logs] == ["the spool has room again"] * ready


@pytest.mark.usefixtures("spool_failed")
def test_a_full_spool_is_over_if_the_transaction_was_rolled_back(
    observer: Observer, health: Health, clock: Clock, tmp_path: Path
) -> None:
    session = SpoolSession(tmp_path / "again")
    observer.begins(session)
    watch(observer, session, clock, 3)
    assert not health.ready
    session.ledger.seen(40)
    for lsn, ready in (19, False), (40, True):
        session.ledger.reached(lsn)
        session.ledger.advance()
        watch(observer, session, clock, 1)
        assert health.ready == ready


@pytest.mark.usefixtures("spool_failed")
def test_an_answer_of_kafka_does_not_end_the_stall_of_a_full_spool(
    observer: Observer, health: Health, clock: Clock, tmp_path: Path
) -> None:
    session = SpoolSession(tmp_path / "again", range(10, 12))
    observer.begins(session)
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
    health.waiting("Postgres can't be reached")
    observer.begins(SpoolSession(tmp_path / "again"))
    assert health.reason == "the disk is full"


def test_sessions_that_end_soon_one_after_the_other_are_no_stream(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """As when Kafka refuses the first record of each: what ended them still holds."""
    for number in range(4):
        session = FakeSession()
        observer.begins(session)
        assert observer.trying == (number >= 2)
        watch(observer, session, clock, 2)
        assert health.ready == (number < 2)
        observer.ended(session, KafkaUnavailable("our clock differs"))
        health.waiting("our clock differs")
    session = FakeSession()
    observer.begins(session)
    with capture_logs() as logs:
        watch(observer, session, clock, 9)
        assert health.reason == "our clock differs"
        watch(observer, session, clock, 1)
    assert health.ready
    assert [event["event"] for event in logs] == ["streaming again"]
    assert not observer.trying


def test_a_session_that_gets_further_streams_again_at_once(
    observer: Observer, health: Health, clock: Clock
) -> None:
    for _ in range(2):
        session = FakeSession()
        observer.begins(session)
        observer.ended(session, KafkaUnavailable("our clock differs"))
    session = FakeSession()
    observer.begins(session)
    watch(observer, session, clock, 1)
    assert not health.ready
    session.ledger.seen(40)
    session.ledger.reached(40)
    session.ledger.advance()
    watch(observer, session, clock, 1)
    assert health.ready


def test_a_session_that_has_lasted_may_end_without_doubt_about_the_next(
    observer: Observer, health: Health, clock: Clock
) -> None:
    for _ in range(3):
        session = FakeSession()
        observer.begins(session)
        watch(observer, session, clock, 60)
        observer.ended(session, SourceUnavailable("Postgres cut the connection"))
        assert health.ready


def test_neither_recovery_nor_a_slow_end_makes_a_session_a_stream(
    observer: Observer, health: Health, clock: Clock
) -> None:
    for _ in range(3):
        session = FakeSession(recovering=True)
        observer.begins(session)
        watch(observer, session, clock, 12)
        assert not health.ready
        session.delivery.recovering = False
        watch(observer, session, clock, 1)
        clock.now += 30
        observer.ended(session, KafkaUnavailable("our clock differs"))
    assert observer.trying
