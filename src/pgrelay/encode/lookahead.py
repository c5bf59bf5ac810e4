"""What the encoder will need soon, found among the events that wait for it.

A table's first row costs round trips to the catalogue, the broker and the registry. If many tables are new at
once, it pays to ask for all of them together. So when the encoder must stop for one, it looks ahead for more.
What it finds is a hint: anything not asked for ahead is asked for when its row comes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd
from pgrelay.encode.relations import Relations
from pgrelay.wire import tags
from pgrelay.wire.cursor import read_u32
from pgrelay.wire.replication import BODY_AT, HEADER_SIZE, STREAMED_BODY_AT


@dataclass(frozen=True, slots=True)
class RelationAhead:
    """A relation that was not read yet, and that the events have a row or a truncate of.

    `body` is its Relation message without tag and xid. `commit_lsn` and `xid` are of the transaction with its
    first row or truncate.
    """

    body: bytes
    commit_lsn: int
    xid: int | None


def relations_ahead(
    events: list[Event], begin: int, body_at: int, commit_lsn: int, xid: int | None, relations: Relations
) -> Iterator[RelationAhead]:
    """The relations that the events from `begin` on have changes of, each once, unless they were read before.

    `body_at`, `commit_lsn`, `xid` and `relations` are those of the transaction in which `begin` lies. A
    relation that is described twice, differently, is left out.
    """
    described: dict[int, bytes] = {}
    differing: set[int] = set()
    used: dict[int, tuple[int, int | None]] = {}
    for index in range(begin, len(events)):
        event = events[index]
        if isinstance(event, TransactionBegin):
            body_at = STREAMED_BODY_AT if event.streamed else BODY_AT
            commit_lsn, xid = event.commit_lsn, event.xid
        elif isinstance(event, TransactionEnd):
            body_at = BODY_AT
        elif isinstance(event, bytes) and len(event) >= body_at + 4:
            tag = event[HEADER_SIZE]
            if tag == tags.RELATION:
                message = event[body_at:]
                if described.setdefault(read_u32(event, body_at), message) != message:
                    differing.add(read_u32(event, body_at))
            for oid in _changed(event, tag, body_at):
                known = described.get(oid) or relations.unplanned_body(oid)
                if known is not None:
                    described[oid] = known
                    used.setdefault(oid, (commit_lsn, xid))
    for oid, (first_lsn, first_xid) in used.items():
        if oid not in differing:
            yield RelationAhead(described[oid], first_lsn, first_xid)


def _changed(event: bytes, tag: int, body_at: int) -> list[int]:
    """The OIDs that a row or a Truncate names, which may be cut short; none for any other message.

    Truncate: Int32 number of relations, a byte of options, the OIDs.
    """
    if tag in tags.ROWS:
        return [read_u32(event, body_at)]
    if tag != tags.TRUNCATE:
        return []
    first = body_at + 5
    last = min(first + 4 * read_u32(event, body_at), len(event) - 3)
    return [read_u32(event, position) for position in range(first, last, 4)]
