"""A committed transaction on its way out of the spool, in slices."""

from collections.abc import Iterable, Iterator

from pgrelay.assembly.spool import FrameBuffer
from pgrelay.wire import tags
from pgrelay.wire.replication import HEADER_SIZE, id_after_tag


class Replay:
    """The frames of a transaction that ends at `end_lsn`, without those of its `aborted` subtransactions.

    The `unannounced` ones, which no StreamAbort named, leave their Relations and Types: the server does not
    send these again, and later rows follow them. `buffer` is discarded at the end; None for a prepared
    transaction, whose files are kept. `newer_relations` are the session's that came after the transaction's
    own for the same tables.
    """

    def __init__(
        self,
        chunks: Iterator[list[bytes]],
        end_lsn: int,
        aborted: set[int],
        unannounced: set[int],
        buffer: FrameBuffer | None = None,
        newer_relations: Iterable[bytes] = (),
    ) -> None:
        self.end_lsn = end_lsn
        self.buffer = buffer
        self.newer_relations = newer_relations
        self.done = False
        self._chunks = chunks
        self._aborted = aborted
        self._unannounced = unannounced
        self._chunk: list[bytes] = []
        self._taken = 0

    def take(self, size: int) -> list[bytes]:
        """The next frames, about `size` bytes; `done` once there are no more.

        Raises SpoolError, or GapError if they are damaged and the server does not send them again.
        """
        frames: list[bytes] = []
        given = 0
        while given < size:
            if self._taken == len(self._chunk):
                chunk = next(self._chunks, None)
                if chunk is None:
                    self.done = True
                    break
                self._chunk, self._taken = chunk, 0
            end = self._taken
            while given < size and end < len(self._chunk):
                given += len(self._chunk[end])
                end += 1
            frames += self._chunk[self._taken : end]
            self._taken = end
        if self._aborted:
            frames = [frame for frame in frames if _subtransaction(frame) not in self._aborted]
        if self._unannounced:
            frames = [
                frame
                for frame in frames
                if frame[HEADER_SIZE] in tags.SCHEMA or _subtransaction(frame) not in self._unannounced
            ]
        return frames

    def discard(self) -> None:
        if self.buffer is not None:
            self.buffer.discard()


def _subtransaction(frame: bytes) -> int:
    """The xid of a change inside a stream; 0, which no transaction has, for Origin, which has no xid."""
    return 0 if frame[HEADER_SIZE] == tags.ORIGIN else id_after_tag(frame)
