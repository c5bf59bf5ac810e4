"""Feeds the assembler, a slice at a time: frames from the socket, or a transaction from the spool."""

from typing import Final

from pgrelay.assembly.assembler import Assembler
from pgrelay.errors import PgrelayError
from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.confirmations import Confirmations
from pgrelay.relay.silence import Silence
from pgrelay.wire.replication import KEEPALIVE, PrimaryKeepalive

# A slice: large enough to be worth the turn, small enough to take a few milliseconds.
_SLICE_FRAMES: Final = 500
_SLICE_BYTES: Final = 256 * 1024


class Intake:
    """`behind`: transactions may have piled up in the socket, so the next read goes on past keepalives."""

    def __init__(
        self,
        source: Source,
        assembler: Assembler,
        ledger: Ledger,
        confirmations: Confirmations,
        silence: Silence,
    ) -> None:
        self.behind = False
        self._source = source
        self._assembler = assembler
        self._ledger = ledger
        self._confirmations = confirmations
        self._silence = silence
        self._frames: list[bytes] = []
        self._taken = 0

    def take_in(self) -> bool:
        """Take in a slice; false if nothing has arrived, or the ledger has no room for more."""
        if self._assembler.replaying:
            self._assembler.replay(_SLICE_BYTES)
            return True
        if self._ledger.full or (self._taken == len(self._frames) and not self._read()):
            return False
        self._taken = self._assembler.receive_all(self._frames, self._taken)
        self._ledger.note_wal_end(self._assembler.server_lsn)
        return True

    def _read(self) -> bool:
        """Read what the socket has: up to a keepalive or, if we are behind, up to a full slice."""
        self._frames = self._source.read(_SLICE_FRAMES, _SLICE_BYTES)
        self._taken = 0
        # A large message may take long to arrive as a whole.
        if self._source.take_bytes_arrived() or self._frames:
            self._silence.reset()
        elif self._silence.must_request_reply():
            self._confirmations.request_reply()
        self._reply_to_keepalive(self._frames)
        size = sum(len(frame) for frame in self._frames) if self.behind else 0
        # So that the needs of many small transactions are met together.
        while self.behind and size < _SLICE_BYTES and len(self._frames) < _SLICE_FRAMES:
            try:
                more = self._source.read(_SLICE_FRAMES, _SLICE_BYTES)
            except PgrelayError:
                # The next read raises it again, after the frames before it.
                break
            self.behind = bool(more)
            self._frames += more
            size += sum(len(frame) for frame in more)
            self._reply_to_keepalive(more)
        return bool(self._frames)

    def _reply_to_keepalive(self, frames: list[bytes]) -> None:
        """Reply to a keepalive that requests it; a keepalive is always the last frame of a read."""
        if frames and frames[-1][0] == KEEPALIVE and PrimaryKeepalive.parse(frames[-1]).reply:
            self._confirmations.reply()
