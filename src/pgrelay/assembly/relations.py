"""The session's Relations: for each table, the description that the server's next rows follow.

Theory of operation. The server describes a table once, and again when it has changed. For each streamed
transaction it does so inside the stream, and those Relations become the session's at the commit. The Relation
in force is the one that the server sent last, which need not be that of the last commit: while a stream is
open, a later one may be sent to another transaction, since no lock keeps a column list or a schema's name
from changing. So each Relation is numbered as it arrives. After the commit of a stream, those of the session
that were sent later than the stream's own are given out again.

Source: PostgreSQL, pgoutput.c, maybe_send_schema and cleanup_rel_sync_cache.
"""

from collections.abc import Iterable
from typing import TypeAlias

from pgrelay.wire import tags
from pgrelay.wire.replication import BODY_AT, HEADER_SIZE, STREAMED_BODY_AT, id_after_tag

# The Relations of a streamed transaction: the number of the last to arrive, by (table's OID, xid).
StreamedRelations: TypeAlias = dict[tuple[int, int], int]


class SessionRelations:
    """`latest` has the Relation frames in force, by OID and without an xid."""

    def __init__(self) -> None:
        self.latest: dict[int, bytes] = {}
        self._arrivals: dict[int, int] = {}
        self._count = 0

    def record(self, oid: int, frame: bytes) -> None:
        """Record a Relation that came outside any stream."""
        self.latest[oid] = frame
        self._count += 1
        self._arrivals[oid] = self._count

    def record_streamed(self, stream: StreamedRelations, tag: int, frame: bytes) -> None:
        """Record a Relation or Type that came inside a stream. Raises ProtocolError if it has no OID."""
        oid = id_after_tag(_without_xid(frame))
        if tag == tags.RELATION:
            self._count += 1
            stream[oid, id_after_tag(frame)] = self._count

    def newer_relations(self, stream: StreamedRelations, aborted: set[int]) -> list[bytes]:
        """Of a stream that commits and will be replayed: the session's Relations that came after its own."""
        last: dict[int, int] = {}
        for (oid, xid), number in stream.items():
            if xid not in aborted:
                last[oid] = max(number, last.get(oid, 0))
        later = [self.latest[oid] for oid, number in last.items() if self._arrivals.get(oid, 0) > number]
        for oid, number in last.items():
            self._arrivals[oid] = max(number, self._arrivals.get(oid, 0))
        return later

    def replay(self, frame: bytes) -> None:
        """Record a Relation of a stream that has committed."""
        frame = _without_xid(frame)
        self.latest[id_after_tag(frame)] = frame

    def restore(self, later: Iterable[bytes]) -> list[bytes]:
        """Put `newer_relations` back in force; returns those that differ from the replayed ones."""
        changed = []
        for frame in later:
            oid = id_after_tag(frame)
            if self.latest[oid][HEADER_SIZE:] != frame[HEADER_SIZE:]:
                changed.append(frame)
            self.latest[oid] = frame
        return changed


def _without_xid(frame: bytes) -> bytes:
    return frame[:BODY_AT] + frame[STREAMED_BODY_AT:]
