"""A session as the observer sees it: what Kafka, Postgres and the encoder are told to answer."""

from pathlib import Path
from typing import cast

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.encode.encoder import Encoder
from pgrelay.encode.needs import Need
from pgrelay.metrics import Metrics
from pgrelay.postgres.slots import SlotWal
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.observer import Observer
from pgrelay.relay.server_poll import ServerPoll
from pgrelay.relay.session import Session
from pgrelay.relay.side_task import SideTask
from pgrelay.status.health import Health
from tests.clock import Clock
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import produce, sink_of
from tests.wire import build
from tests.wire.build import xlog_data

STALLED = "Kafka does not acknowledge: no answer for 10 s"


class FakeEncoder:
    """Needs what it is told to need."""

    need: Need | None = None


class FakePoll(ServerPoll):
    """Has found nothing yet."""

    def __init__(self) -> None:
        self.published = None
        self.wal: SlotWal | None = None


class FakeGuarantee(AtLeastOnce):
    """Recovers as long as it is told to, as if by exactly once. Its position waits for `waits_s`."""

    recovering = False
    waits_s: float | None = None

    @property
    def position_unacknowledged_s(self) -> float | None:
        return self.waits_s


class FakeSession(Session):
    """The part of an at-least-once session by which the observer judges whether Kafka answers."""

    def __init__(self, recovering: bool = False) -> None:
        self.ledger = Ledger()
        self.kafka = FakeProducer()
        self.sink = sink_of(self.kafka)
        self.side_task = SideTask(lambda: None)
        self.guarantee = self.delivery = FakeGuarantee(self.sink, self.ledger, None)
        self.delivery.recovering = recovering
        self.confirmations = Confirmations(Source(""), self.ledger, self.guarantee, 10.0)
        self.server_poll = self.postgres = FakePoll()
        self.needing = FakeEncoder()
        self.encoder = cast(Encoder, self.needing)

    def send(self) -> None:
        """A record is on its way."""
        produce(self.sink)

    def acknowledge(self) -> None:
        """Kafka takes another record."""
        self.send()
        self.kafka.answer()
        self.sink.poll()


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


class UnpublishedObserver(Observer):
    """An observer that publishes no metrics."""

    def __init__(self, health: Health) -> None:
        super().__init__(Metrics(), health)

    def publish(self, session: Session) -> None:
        pass


def watch(observer: Observer, session: FakeSession, clock: Clock, seconds: int) -> None:
    """Let a turn pass each second."""
    for _ in range(seconds):
        clock.now += 1
        observer.on_turn(session)
