"""A session's commits to Kafka, which accepts each at once. Only positions are in them, no records."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.encode.records import Segment
from pgrelay.kafka.offsets import Position
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.exactly_once import ExactlyOnce
from pgrelay.relay.gap_checks import Upstream
from tests.encode.encoding import OPTIONS, encoder_of, segments, transaction
from tests.kafka.producer import FakeProducer
from tests.kafka.sinks import FakeOffsets, transactions_of
from tests.wire import build
from tests.wire.build import INT4, Column

SLOT: Final = 0x1000
WAL_END: Final = 0x9000
FIRST, SECOND, THIRD = 0x1800, 0x2800, 0x3800
"""Where transactions commit; each ends 8 bytes later."""

TIMEOUT_S: Final = 60.0
SPOOL: Final = Spool(Path("never opened"))
TABLE: Final = 16384
RELATION: Final = build.relation(TABLE, "public", "people", "d", [Column("id", INT4, key=True)])


class Relaying:
    """A session's ledger, encoder and commits, and what the session does with them."""

    def __init__(
        self,
        delivered: Position | None = None,
        slot_lsn: int = SLOT,
        wal_end: int = WAL_END,
        known: Position | None = None,
    ) -> None:
        self.kafka = FakeProducer()
        sink = transactions_of(self.kafka, FakeOffsets(delivered))
        self.ledger = Ledger(slot_lsn)
        self.encoder = encoder_of(replace(OPTIONS, headers=True))
        server = upstream(slot_lsn, answer(wal_end))
        self.assembler = assembler(SPOOL)
        self.commits = ExactlyOnce(sink, self.ledger, self.assembler, self.encoder, server, known)
        self._entry = InFlight(None)

    def take(self, events: list[Event]) -> list[int]:
        """Encode events and enter them into the ledger; return the `seq` of each record."""
        seqs: list[int] = []
        for segment in segments(self.encoder, events):
            self._enter(segment)
            seqs += [int(dict(headers or [])["seq"] or b"") for _, _, _, headers, _ in segment.records]
        return seqs

    def _enter(self, segment: Segment) -> None:
        if segment.begin is not None:
            self._entry = self.ledger.begin(segment.begin.commit_us)
        self.commits.on_entry(self._entry, 0, has_records=bool(segment.records))
        if segment.end_lsn is not None:
            self.ledger.note_wal_end(segment.end_lsn)
            self.ledger.end(segment.end_lsn)

    def reach(self, lsn: int) -> None:
        """Enter a position with nothing to deliver, as from a keepalive."""
        self.ledger.note_wal_end(lsn)
        position = self.ledger.enter_position(lsn)
        assert position is not None
        self.commits.on_entry(position, lsn, has_records=False)

    async def commit(self) -> Position:
        await self.commits.commit()
        return self.kafka.positions[-1]

    @property
    def confirmable(self) -> int:
        """The LSN that may be confirmed to Postgres."""
        self.ledger.advance()
        return self.ledger.flush_lsn


def assembler(spool: Spool) -> Assembler:
    return Assembler(spool, PreparedStore(spool), memory_limit=1 << 20)


def upstream(slot_lsn: int, wal_end: Callable[[], Awaitable[int]]) -> Upstream:
    return Upstream(slot_lsn, wal_end, primary=None)


def answer(lsn: int) -> Callable[[], Awaitable[int]]:
    async def wal_end() -> int:
        return lsn

    return wal_end


def rows(commit_lsn: int, count: int = 1) -> list[Event]:
    """A transaction that inserts `count` rows."""
    inserts = [build.insert(TABLE, [str(number)]) for number in range(count)]
    return transaction(RELATION, *inserts, commit_lsn=commit_lsn)


def begun(commit_lsn: int, count: int) -> list[Event]:
    """Such a transaction without its end."""
    return rows(commit_lsn, count)[:-1]


def rest(commit_lsn: int, count: int) -> list[Event]:
    """The continuation of `begun`: `count` more rows, and the end."""
    return rows(commit_lsn, count)[2:]
