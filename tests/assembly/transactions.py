"""Frames through an assembler, and what comes out, transaction by transaction."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event, Reached, TransactionBegin, TransactionEnd
from pgrelay.wire.replication import HEADER_SIZE

UNLIMITED = 1 << 40


@dataclass
class Position:
    """A transaction as it came out: its frames, those that describe relations apart."""

    begin: TransactionBegin
    end_lsn: int = 0
    frames: list[bytes] = field(default_factory=list)


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
    while index < len(frames) or assembler.replaying or assembler.doubtful:
        if assembler.doubtful:
            assembler.settle([subxid for subxid in assembler.doubtful if subxid in rolled_back])
        elif assembler.replaying:
            assembler.replay(slice_size)
        else:
            index = assembler.receive_all(frames, index)
        yield assembler.take()


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
        elif isinstance(event, Reached):
            assert not inside, "a position was reached inside a transaction"
        elif event[HEADER_SIZE] not in b"RY":
            assert inside, "a change outside any transaction"
            delivered[-1].frames.append(event)
    assert not inside, "a transaction never ended"
    return delivered
