"""What the encoder will need soon, found among the events that wait for it.

A table's first row costs round trips to catalogue, broker and registry. Where many tables are new at once it
pays to ask for all of them together: so when the encoder must stop for one, it looks ahead for others. What
is found is a hint: whatever is not asked for ahead is asked for when its row comes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd
from pgrelay.wire import tags
from pgrelay.wire.cursor import read_u32
from pgrelay.wire.replication import BODY, HEADER_SIZE, STREAMED_BODY


@dataclass(frozen=True, slots=True)
class Ahead:
    """The first row of a relation among the events, or its truncate.

    `body` is the Relation message behind its tag and xid, `frame` the whole of it, `start` where the body
    begins in it; `commit_lsn` is the transaction's.
    """

    oid: int
    body: bytes
    frame: bytes
    start: int
    commit_lsn: int


def relations_ahead(events: list[Event], begin: int, body: int, commit_lsn: int) -> Iterator[Ahead]:
    """The relations that the events from `begin` on describe and have changes of, each once.

    `body` and `commit_lsn` are those of the transaction in which `begin` lies. One that is described twice,
    and not the same way, is left to its turn.
    """
    described: dict[int, tuple[bytes, bytes, int]] = {}
    changed: set[int] = set()
    used: dict[int, int] = {}
    for index in range(begin, len(events)):
        event = events[index]
        if isinstance(event, TransactionBegin):
            body = STREAMED_BODY if event.streamed else BODY
            commit_lsn = event.commit_lsn
        elif isinstance(event, TransactionEnd):
            body = BODY
        elif isinstance(event, bytes) and len(event) >= body + 4:
            tag, oid = event[HEADER_SIZE], read_u32(event, body)
            if tag == tags.RELATION:
                known = described.setdefault(oid, (event[body:], event, body))
                if known[0] != event[body:]:
                    changed.add(oid)
            elif tag in tags.ROWS and oid in described:
                used.setdefault(oid, commit_lsn)
            elif tag == tags.TRUNCATE:
                for truncated in _truncated(event, body):
                    if truncated in described:
                        used.setdefault(truncated, commit_lsn)
    for oid, first_lsn in used.items():
        if oid not in changed:
            yield Ahead(oid, *described[oid], first_lsn)


def _truncated(event: bytes, body: int) -> list[int]:
    """The relations of a Truncate: their number, a byte of options, their OIDs. It may be cut."""
    first = body + 5
    last = min(first + 4 * read_u32(event, body), len(event) - 3)
    return [read_u32(event, position) for position in range(first, last, 4)]
