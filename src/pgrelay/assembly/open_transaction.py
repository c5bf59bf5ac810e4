"""A transaction that is being sent, or was sent in part, and which of its changes do not count.

Theory of operation. A StreamAbort names each subtransaction that was rolled back, if anything of it was sent.
So the manual says; but the server can forget what it sent. If `logical_decoding_work_mem` is reached in the
middle of a row (a large value in pieces, or ON CONFLICT), it puts the transaction on its disk, and streams it
once that row is complete. It marks as streamed those subtransactions that have changes in memory then: of one
with more than 4,096 changes it may have none, as these are read back in portions. The rollback of that one is
never announced. So the server is asked how its subtransactions ended, once a streamed transaction has.

Source: PostgreSQL, reorderbuffer.c, ReorderBufferMaybeMarkTXNStreamed and ReorderBufferRestoreChanges. Seen
on 14, 16 and 18: tests/integration/test_unannounced_aborts.py.
"""

from array import array
from typing import Final, TypeAlias

from pgrelay.assembly.relations import SessionRelations, StreamedRelations
from pgrelay.assembly.spool import FrameBuffer
from pgrelay.wire.transactions import StreamCommit, StreamPrepare

StreamEnd: TypeAlias = StreamCommit | StreamPrepare

# From here on, repetitions are removed each time the list has doubled.
_LONG: Final = 1 << 16


class Subtransactions:
    """The xids of a streamed transaction's subtransactions. Takes 4 bytes each, as there may be millions."""

    def __init__(self, xid: int) -> None:
        self._xid = xid
        self._last = 0
        # Nearly always each comes once, and after those that began before it.
        self._in_order = True
        self._noted = array("I")
        self._long = _LONG

    def note(self, xid: int) -> None:
        """A change with this xid came: the transaction's own, or a subtransaction's."""
        if xid == self._last or xid == self._xid:
            return
        if xid < self._last:
            self._in_order = False
        self._last = xid
        self._noted.append(xid)
        if not self._in_order and len(self._noted) >= self._long:
            self._noted = self._each()
            self._long = max(_LONG, 2 * len(self._noted))

    def besides(self, aborted: set[int]) -> "array[int]":
        """Those that are not in `aborted`, in order."""
        noted = self._noted if self._in_order else self._each()
        return array("I", (xid for xid in noted if xid not in aborted)) if aborted else noted

    def _each(self) -> "array[int]":
        return array("I", sorted(set(self._noted)))


class OpenTransaction:
    """Subtransactions that were rolled back are `aborted` if a StreamAbort said so, else `unannounced`."""

    def __init__(self, xid: int, frames: FrameBuffer) -> None:
        self.xid = xid
        self.frames = frames
        self.subtransactions = Subtransactions(xid)
        self.aborted: set[int] = set()
        self.unannounced: set[int] = set()
        self.described: StreamedRelations = {}
        # By OID, the session's Relation when the first change that needs it came.
        self.relied_on: dict[int, bytes] = {}

    def rely(self, oid: int, relations: SessionRelations) -> None:
        """A change of this table came outside of a stream, and follows the session's Relation."""
        if oid not in self.relied_on and oid in relations.latest:
            self.relied_on[oid] = relations.latest[oid]
