"""What readiness says of a session: a stall is reported once, and ends with an answer.

It also ends when nothing waits any more; and that of a full spool, when a try gets past the failure.
"""

from pathlib import Path
from typing import Final, cast

import pytest
from structlog.testing import capture_logs

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.encode.avro.schema import Schemas
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import FactsNeeded, Need, TopicNeeded
from pgrelay.kafka.sink import Sink
from pgrelay.metrics import Metrics
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.errand import Errand
from pgrelay.relay.observer import Observer
from pgrelay.relay.server_poll import ServerPoll
from pgrelay.relay.session import Session
from pgrelay.status.health import Health
from pgrelay.wire.pgoutput import Relation
from tests.clock import Clock
from tests.wire import build
from tests.wire.build import xlog_data

pytestmark = pytest.mark.usefixtures("clock")

STALLED = "Kafka does not acknowledge: no answer for 10 s"
AGAIN = "Kafka acknowledges again"


class FakeSink(Sink):
    """Its producer has a given number of unacknowledged records."""

    def __init__(self) -> None:
        self.problem = None
        self.under_way = 0
        self.acknowledged = False

    @property
    def in_queue(self) -> int:
        return self.under_way

    def take_acknowledged(self) -> bool:
        taken, self.acknowledged = self.acknowledged, False
        return taken


class FakeConfirmations(Confirmations):
    """The position has waited for a given time, in seconds."""

    def __init__(self) -> None:
        self.waits_s = 0

    @property
    def position_waits_s(self) -> float:
        return self.waits_s


class FakeEncoder:
    """Needs what it is told to need."""

    need: Need | None = None


class FakePoll(ServerPoll):
    """Has found nothing yet."""

    def __init__(self) -> None:
        self.published = None


class FakeGuarantee(AtLeastOnce):
    """Recovers as long as it is told to, as if by exactly once."""

    recovering = False


class FakeSession(Session):
    """The part of an at-least-once session by which the observer judges whether Kafka answers."""

    def __init__(self, recovering: bool = False) -> None:
        self.ledger = Ledger()
        self.confirmations = self.position = FakeConfirmations()
        self.sink = self.kafka = FakeSink()
        self.errand = Errand(lambda: None)
        self.guarantee = self.delivery = FakeGuarantee(self.kafka, self.ledger, self.confirmations)
        self.delivery.recovering = recovering
        self.server_poll = FakePoll()
        self.needing = FakeEncoder()
        self.encoder = cast(Encoder, self.needing)


class Watching(Observer):
    """Only observes Kafka."""

    def __init__(self, health: Health) -> None:
        super().__init__(Metrics(), health)

    def publish(self, session: Session) -> None:
        pass


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def observer(health: Health) -> Observer:
    return Watching(health)


def watch(observer: Observer, session: FakeSession, clock: Clock, seconds: int) -> None:
    """A turn each second."""
    for _ in range(seconds):
        clock.now += 1
        observer.turned(session)


def stalled(observer: Observer, clock: Clock, *, committing: bool) -> FakeSession:
    """A session whose commit, or else its one record, Kafka leaves without an answer."""
    session = FakeSession()
    observer.begins(session)
    session.errand.committing, session.kafka.under_way = committing, int(not committing)
    watch(observer, session, clock, 11)
    return session


def test_a_successful_commit_ends_a_stall_even_if_nothing_follows(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = stalled(observer, clock, committing=True)
    assert health.reason == STALLED
    session.errand.committing = False
    with capture_logs() as logs:
        watch(observer, session, clock, 3)
    assert health.ready
    assert [event["event"] for event in logs] == [AGAIN]


def test_a_new_stream_to_postgres_does_not_end_a_stall(
    observer: Observer, health: Health, clock: Clock
) -> None:
    stalled(observer, clock, committing=False)
    again = FakeSession()
    again.kafka.under_way = 1
    observer.begins(again)
    assert health.reason == STALLED
    watch(observer, again, clock, 3)
    assert health.reason == STALLED
    again.kafka.acknowledged = True
    watch(observer, again, clock, 1)
    assert health.ready


def test_an_acknowledged_record_ends_a_stall(observer: Observer, health: Health, clock: Clock) -> None:
    session = stalled(observer, clock, committing=False)
    assert health.reason == STALLED
    session.kafka.acknowledged = True
    with capture_logs() as logs:
        watch(observer, session, clock, 3)
    assert health.ready
    assert [event["event"] for event in logs] == [AGAIN]


def test_a_position_that_waits_long_is_a_stall_even_if_rows_flow(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """Its topic may have another leader than those of rows. Without the position the slot never moves."""
    session = FakeSession()
    observer.begins(session)
    session.kafka.under_way = 1
    with capture_logs() as logs:
        for session.position.waits_s in range(1, 61):
            session.kafka.acknowledged = True
            watch(observer, session, clock, 1)
            assert health.ready == (session.position.waits_s <= 30)
        assert "no answer about the position for 30 s; the slot does not move" in (health.reason or "")
        session.position.waits_s = 0
        session.kafka.acknowledged = True
        watch(observer, session, clock, 1)
    assert health.ready
    assert [event["log_level"] for event in logs] == ["warning", "info"]


def test_a_partition_that_accepts_nothing_is_a_stall_even_if_others_flow(
    observer: Observer, health: Health, clock: Clock
) -> None:
    """The oldest transaction has a record in that partition, so the slot never moves."""
    session = FakeSession()
    observer.begins(session)
    session.kafka.under_way = 1
    stuck = session.ledger.begin(commit_us=0)
    stuck.records = 2
    with capture_logs() as logs:
        for seconds in range(1, 71):
            if seconds == 10:
                stuck.acknowledged = 1
            session.kafka.acknowledged = True
            watch(observer, session, clock, 1)
            assert health.ready == (seconds <= 40)
        assert "no answer about the oldest records for 30 s, but about others" in (health.reason or "")
        stuck.acknowledged = 2
        session.kafka.acknowledged = True
        watch(observer, session, clock, 1)
    assert health.ready
    assert [event["log_level"] for event in logs] == ["warning", "info"]


def test_a_transaction_that_the_server_sends_slowly_is_no_stall(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.begins(session)
    begun = session.ledger.begin(commit_us=0)
    begun.records = begun.acknowledged = 2
    session.kafka.under_way = 1
    for _ in range(60):
        session.kafka.acknowledged = True
        watch(observer, session, clock, 1)
        assert health.ready


def test_a_session_that_reads_its_position_is_not_ready_because_nothing_waits(
    observer: Observer, health: Health, clock: Clock
) -> None:
    stalled(observer, clock, committing=True)
    session = FakeSession(recovering=True)
    observer.begins(session)
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
    observer.begins(session)
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
    observer.begins(session)
    session.needing.need = TopicNeeded("app.public.t")
    watch(observer, session, clock, 15)
    session.kafka.under_way = 1
    watch(observer, session, clock, 9)
    assert health.reason == "no answer for 10 s from Kafka about topic app.public.t"
    watch(observer, session, clock, 3)
    assert health.reason == STALLED


def test_answers_that_come_keep_it_ready_however_many_are_needed(
    observer: Observer, health: Health, clock: Clock
) -> None:
    session = FakeSession()
    observer.begins(session)
    for number in range(60):
        session.needing.need = TopicNeeded(f"app.public.t{number}")
        watch(observer, session, clock, 1)
        assert health.ready


def test_nothing_is_logged_if_nothing_waits(observer: Observer, health: Health, clock: Clock) -> None:
    session = FakeSession()
    with capture_logs() as logs:
        observer.begins(session)
        watch(observer, session, clock, 60)
    assert health.ready
    assert logs == []


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


@pytest.fixture
def spool_failed(observer: Observer, health: Health, tmp_path: Path) -> None:
    """The spool's disk was full at row 34, in the second segment."""
    session = SpoolSession(tmp_path / "failed", range(10, 20), range(20, 35))
    observer.begins(session)
    health.waiting("the disk is full")
    observer.spool_failed(session)


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
    session.kafka.under_way = 1
    watch(observer, session, clock, 11)
    assert health.reason == STALLED
    session.kafka.acknowledged = True
    watch(observer, session, clock, 1)
    assert not health.ready
