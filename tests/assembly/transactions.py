"""Frames through an assembler, and what comes out, transaction by transaction."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd, Watermark
from pgrelay.wire.replication import HEADER_SIZE
from tests.wire import build
from tests.wire.build import xlog_data

UNLIMITED = 1 << 40
ORDERS = 16384
STOP = xlog_data(build.stream_stop())


@dataclass
class Position:
    """A transaction as it came out: its frames, those that describe relations apart."""

    begin: TransactionBegin
    end_lsn: int = 0
    frames: list[bytes] = field(default_factory=list)


def insert(xid: int, number: int) -> bytes:
    return xlog_data(build.insert(ORDERS, [str(number)], xid), 0x100 + number)


def relation(xid: int, column: str = "id") -> bytes:
    return xlog_data(build.relation(ORDERS, "public", "orders", "d", [build.Column(column)], xid))


def segment(xid: int, *frames: bytes, first: bool = True) -> list[bytes]:
    """A segment of a streamed transaction."""
    return [xlog_data(build.stream_start(xid, first), 0x100), *frames, STOP]


def commit(xid: int, commit_lsn: int = 0x900) -> bytes:
    """The commit of a streamed transaction."""
    return xlog_data(build.stream_commit(xid, commit_lsn, commit_lsn + 0x30), commit_lsn + 0x30)


def abort(xid: int, subxid: int | None = None) -> bytes:
    return xlog_data(build.stream_abort(xid, subxid), 0x800)


def batches(
    assembler: Assembler,
    frames: list[bytes],
    slice_size: int = UNLIMITED,
    rolled_back: Collection[int] = (),
) -> Iterator[list[Event]]:
    """Feed the frames as the relay does: as many as it takes, then what must be replayed, slice by slice.

    `rolled_back` are subtransactions, as the server would say if asked.
    """
    index = 0
    while index < len(frames) or assembler.replaying or assembler.in_doubt:
        if assembler.in_doubt:
            assembler.resolve([subxid for subxid in assembler.in_doubt if subxid in rolled_back])
        elif assembler.replaying:
            assembler.replay(slice_size)
        else:
            index = assembler.receive_all(frames, index)
        yield assembler.take_events()


def events(
    assembler: Assembler,
    frames: list[bytes],
    slice_size: int = UNLIMITED,
    rolled_back: Collection[int] = (),
) -> list[Event]:
    return [event for batch in batches(assembler, frames, slice_size, rolled_back) for event in batch]


def transactions(events: list[Event]) -> list[Position]:
    """The transactions among the events, without the relations in and around them."""
    delivered: list[Position] = []
    inside = False
    for event in events:
        if isinstance(event, TransactionBegin):
            assert not inside, "a transaction began inside another"
            inside = True
            delivered.append(Position(event))
        elif isinstance(event, TransactionEnd):
            assert inside, "a transaction ended that never began"
            inside = False
            delivered[-1].end_lsn = event.end_lsn
        elif isinstance(event, Watermark):
            assert not inside, "a position was reached inside a transaction"
        elif event[HEADER_SIZE] not in b"RY":
            assert inside, "a change outside any transaction"
            delivered[-1].frames.append(event)
    assert not inside, "a transaction never ended"
    return delivered
