"""What the encoder will need soon, found among the events that wait for it.

A table's first row costs round trips to the catalogue, the broker and the registry. If many tables are new at
once, it pays to ask for all of them together. So when the encoder must stop for one, it looks ahead for more.
What it finds is a hint: anything not asked for ahead is asked for when its row comes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd
from pgrelay.wire import tags
from pgrelay.wire.cursor import read_u32
from pgrelay.wire.replication import BODY, HEADER_SIZE, STREAMED_BODY


@dataclass(frozen=True, slots=True)
class RelationAhead:
    """A relation that the events describe and have a row or a truncate of.

    `body` is its Relation message without tag and xid. `commit_lsn` and `xid` are of the transaction with its
    first row or truncate.
    """

    oid: int
    body: bytes
    commit_lsn: int
    xid: int | None


def relations_ahead(
    events: list[Event], begin: int, body: int, commit_lsn: int, xid: int | None
) -> Iterator[RelationAhead]:
    """The relations that the events from `begin` on describe and have changes of, each once.

    `body` (where a change's fields begin in its frame), `commit_lsn` and `xid` are those of the transaction
    in which `begin` lies. A relation that is described twice, differently, is left out.
    """
    described: dict[int, bytes] = {}
    changed: set[int] = set()
    used: dict[int, tuple[int, int | None]] = {}
    for index in range(begin, len(events)):
        event = events[index]
        if isinstance(event, TransactionBegin):
            body = STREAMED_BODY if event.streamed else BODY
            commit_lsn, xid = event.commit_lsn, event.xid
        elif isinstance(event, TransactionEnd):
            body = BODY
        elif isinstance(event, bytes) and len(event) >= body + 4:
            tag, oid = event[HEADER_SIZE], read_u32(event, body)
            if tag == tags.RELATION:
                message = event[body:]
                if described.setdefault(oid, message) != message:
                    changed.add(oid)
            elif tag in tags.ROWS and oid in described:
                used.setdefault(oid, (commit_lsn, xid))
            elif tag == tags.TRUNCATE:
                for truncated in _truncated(event, body):
                    if truncated in described:
                        used.setdefault(truncated, (commit_lsn, xid))
    for oid, (first_lsn, first_xid) in used.items():
        if oid not in changed:
            yield RelationAhead(oid, described[oid], first_lsn, first_xid)


def _truncated(event: bytes, body: int) -> list[int]:
    """The OIDs in a Truncate: Int32 number of relations, a byte of options, the OIDs. It may be cut short."""
    first = body + 5
    last = min(first + 4 * read_u32(event, body), len(event) - 3)
    return [read_u32(event, position) for position in range(first, last, 4)]
