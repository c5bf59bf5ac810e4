"""The session's Relations: of each table, the one by which the server goes on.

Theory of operation. The server describes a table once, and again when it has changed. Of each transaction
that it streams it does so inside the stream, whose Relations are the session's once that commits. Of all
that describe a table it goes by the one that it sent last. That need not be the one of the last commit:
while a stream is open, another transaction may be sent a later one, since no lock keeps a column list or a
schema's name from changing. So each is numbered as it arrives, and what was sent later is told again behind
the commit of a stream.

Source: PostgreSQL, pgoutput.c, maybe_send_schema and cleanup_rel_sync_cache.
"""

from pgrelay.wire import tags
from pgrelay.wire.replication import BODY, HEADER_SIZE, STREAMED_BODY, id_after_tag


class StreamedRelations:
    """Those of a transaction that is streamed: by table and (sub)transaction, which has arrived last."""

    def __init__(self) -> None:
        self.arrivals: dict[tuple[int, int], int] = {}


class Relations:
    """Frames by OID, as they came outside of streams, those of Types as well."""

    def __init__(self) -> None:
        self.latest: dict[int, bytes] = {}
        self.types: dict[int, bytes] = {}
        self._arrivals: dict[int, int] = {}
        self._count = 0

    def learn(self, tag: int, frame: bytes) -> None:
        """Take in one that came outside of any stream."""
        self._keep(tag, frame)
        if tag == tags.RELATION:
            self._count += 1
            self._arrivals[id_after_tag(frame)] = self._count

    def describe(self, stream: StreamedRelations, tag: int, frame: bytes) -> None:
        """Note one that came inside a stream. Raises ProtocolError where it has no OID."""
        oid = id_after_tag(_without_xid(frame))
        if tag == tags.RELATION:
            self._count += 1
            stream.arrivals[oid, id_after_tag(frame)] = self._count

    def sent_later(self, stream: StreamedRelations, aborted: set[int]) -> list[bytes]:
        """Have a stream commit; the Relations that came later than its own. Its frames are to be replayed."""
        last: dict[int, int] = {}
        for (oid, xid), number in stream.arrivals.items():
            if xid not in aborted:
                last[oid] = max(number, last.get(oid, 0))
        later = [self.latest[oid] for oid, number in last.items() if self._arrivals.get(oid, 0) > number]
        for oid, number in last.items():
            self._arrivals[oid] = max(number, self._arrivals.get(oid, 0))
        return later

    def replay(self, tag: int, frame: bytes) -> None:
        """Take in one of a stream that has committed."""
        self._keep(tag, _without_xid(frame))

    def restore(self, later: list[bytes]) -> list[bytes]:
        """Go on by what was sent later than what was replayed; those of them that differ from it."""
        changed = []
        for frame in later:
            if self.latest[id_after_tag(frame)][HEADER_SIZE:] != frame[HEADER_SIZE:]:
                changed.append(frame)
            self._keep(tags.RELATION, frame)
        return changed

    def _keep(self, tag: int, frame: bytes) -> None:
        (self.latest if tag == tags.RELATION else self.types)[id_after_tag(frame)] = frame


def _without_xid(frame: bytes) -> bytes:
    return frame[:BODY] + frame[STREAMED_BODY:]
