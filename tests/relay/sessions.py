"""Sessions as the relay builds them; only the server, the producer and the poll of the server are fakes."""

import asyncio
import math
from collections.abc import Callable

from pgrelay.assembly.events import TransactionBegin
from pgrelay.assembly.spool import Spool
from pgrelay.encode.records import BY_KEY, Segment
from pgrelay.kafka.sink import Sink
from pgrelay.kafka.transactional import TransactionalSink
from pgrelay.metrics import Metrics
from pgrelay.postgres.catalog import Catalog
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.at_least_once import AtLeastOnce
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.exactly_once import ExactlyOnce
from pgrelay.relay.guarantee import DeliveryGuarantee
from pgrelay.relay.positions import Positions
from pgrelay.relay.server_poll import ServerPoll
from pgrelay.relay.session import Session
from pgrelay.relay.supply import Supply
from tests.encode.encoding import encoder_of
from tests.kafka.sinks import OFFSETS
from tests.relay.relaying import SPOOL, answer, assembler, upstream


class FakeSource(Source):
    """A server that has sent nothing. Counts reads and waits, and keeps the LSNs confirmed to it."""

    def __init__(self) -> None:
        super().__init__("")
        self.reads = self.waits = 0
        self.confirmed: list[int] = []

    def read(self, max_frames: int, max_bytes: int) -> list[bytes]:
        self.reads += 1
        return []

    async def wait_readable(self, timeout_s: float | None) -> None:
        self.waits += 1
        await asyncio.sleep(0)

    def send_status(self, received_lsn: int, flush_lsn: int, *, reply: bool = False) -> bool:
        self.confirmed.append(flush_lsn)
        return True


class FakePoll(ServerPoll):
    """Asks the server nothing."""

    def __init__(self) -> None:
        self.wal = None

    def turn(self, relayed_lsn: int) -> None: ...

    def due_in_s(self) -> float:
        return math.inf

    async def close(self) -> None: ...


def session_of(
    source: Source,
    sink: Sink,
    ledger: Ledger | None = None,
    *,
    serial_until: int = 0,
    keeps_positions: bool = False,
    spool: Spool | None = None,
    wal_end: int = 0,
    supply: type[Supply] = Supply,
) -> Session:
    """A session from LSN 0, or from where the ledger begins; exactly once if the sink has transactions."""
    ledger, encoder = ledger or Ledger(), encoder_of()
    server = upstream(ledger.flush_lsn, answer(wal_end))
    held = assembler(spool or SPOOL)
    positions = Positions(sink, OFFSETS, server) if keeps_positions else None
    guarantee: DeliveryGuarantee = AtLeastOnce(sink, ledger, positions)
    if isinstance(sink, TransactionalSink):
        guarantee = ExactlyOnce(sink, ledger, held, encoder, server, None)
    return Session(
        source=source,
        sink=sink,
        assembler=held,
        encoder=encoder,
        ledger=ledger,
        metrics=Metrics(),
        confirmations=Confirmations(source, ledger, guarantee, 10.0),
        guarantee=guarantee,
        serial_until=serial_until,
        supply=supply(encoder, Catalog(""), sink, None),
        server_poll=FakePoll(),
    )


def enter(session: Session, end_lsn: int, *values: bytes, ends: bool = True) -> None:
    """Enter a transaction with a record of each value, as if it was just encoded."""
    segment = Segment(TransactionBegin(700, end_lsn - 1, 0))
    segment.records = [("t", None, value, None, BY_KEY) for value in values]
    if ends:
        segment.end_lsn = end_lsn
    session.ledger.note_wal_end(end_lsn)
    session.entries.enter([segment])


def end(session: Session, end_lsn: int) -> None:
    """End the transaction that `enter` did not."""
    segment = Segment(None)
    segment.end_lsn = end_lsn
    session.entries.enter([segment])


def committing(session: Session) -> bool:
    return session.side_task.committing


def recovered(session: Session) -> bool:
    return not session.guarantee.recovering


async def turns(
    session: Session, most: float = math.inf, *, until: Callable[[Session], bool] = lambda _: False
) -> None:
    """Run the session for so many turns at most, or until that is true at the beginning of one.

    How many it takes until another thread has done its part depends on the machine.
    """
    stop, taken = asyncio.Event(), 0

    def turned(_: Session) -> None:
        nonlocal taken
        taken += 1
        if taken == most or until(session):
            stop.set()

    await asyncio.wait_for(session.run(stop, turned), 60)
