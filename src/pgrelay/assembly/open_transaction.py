"""A transaction that has been sent in part or in full, and which of its subtransactions were rolled back.

Theory of operation. A StreamAbort names each subtransaction that was rolled back, if anything of it was sent.
So the manual says; but the server can forget what it sent. If `logical_decoding_work_mem` is reached in the
middle of a row (a large value in pieces, or ON CONFLICT), it puts the transaction on its disk, and streams it
once that row is complete. It marks as streamed those subtransactions that have changes in memory then: of one
with more than 4,096 changes it may have none, as these are read back in portions. The rollback of that one is
never announced. So once a streamed transaction has ended, the server is asked how its subtransactions did.

Source: PostgreSQL, reorderbuffer.c, ReorderBufferMaybeMarkTXNStreamed and ReorderBufferRestoreChanges. Seen
on 14, 16 and 18: tests/integration/test_unannounced_aborts.py.
"""

from array import array
from typing import Final, TypeAlias

from pgrelay.assembly.relations import SessionRelations, StreamedRelations
from pgrelay.assembly.spool import FrameBuffer
from pgrelay.wire.transactions import StreamCommit, StreamPrepare

StreamEnd: TypeAlias = StreamCommit | StreamPrepare

# From this length on, duplicates are removed each time the list has doubled.
_DEDUPE_AT: Final = 1 << 16


class Subtransactions:
    """The xids of a streamed transaction's subtransactions. Takes 4 bytes each, as there may be millions."""

    def __init__(self, xid: int) -> None:
        self._xid = xid
        self._last = 0
        # Nearly always each comes once, after those that began before it.
        self._in_order = True
        self._xids = array("I")
        self._dedupe_at = _DEDUPE_AT

    def add(self, xid: int) -> None:
        """A change with this xid came: the transaction's own, or a subtransaction's."""
        if xid == self._last or xid == self._xid:
            return
        if xid < self._last:
            self._in_order = False
        self._last = xid
        self._xids.append(xid)
        if not self._in_order and len(self._xids) >= self._dedupe_at:
            self._xids = self._distinct()
            self._dedupe_at = max(_DEDUPE_AT, 2 * len(self._xids))

    def excluding(self, aborted: set[int]) -> "array[int]":
        """Those that are not in `aborted`, in order."""
        xids = self._xids if self._in_order else self._distinct()
        return array("I", (xid for xid in xids if xid not in aborted)) if aborted else xids

    def _distinct(self) -> "array[int]":
        return array("I", sorted(set(self._xids)))


class OpenTransaction:
    """Subtransactions that were rolled back are `aborted` if a StreamAbort said so, else `unannounced`."""

    def __init__(self, xid: int, frames: FrameBuffer) -> None:
        self.xid = xid
        self.frames = frames
        self.subtransactions = Subtransactions(xid)
        self.aborted: set[int] = set()
        self.unannounced: set[int] = set()
        self.streamed_relations: StreamedRelations = {}
        # By OID, the session's Relation as it was when the first change that needs it came.
        self.pinned_relations: dict[int, bytes] = {}

    def pin_relation(self, oid: int, relations: SessionRelations) -> None:
        """Keep the session's Relation for a change of this table that came outside any stream."""
        if oid not in self.pinned_relations and oid in relations.latest:
            self.pinned_relations[oid] = relations.latest[oid]
