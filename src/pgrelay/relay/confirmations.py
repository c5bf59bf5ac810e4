"""What Postgres is told, and when: StandbyStatusUpdate, which moves the slot and keeps the stream alive."""

import time
from typing import Final

from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.positions import Positions

# Between updates that move the slot: one per acknowledgement would cost both ends more than the rows.
_LEAST_S: Final = 0.01


class Confirmations:
    """`confirmed_lsn` is the LSN that the server was last told.

    With `positions`, nothing is confirmed before Kafka has acknowledged its position.
    """

    def __init__(
        self, source: Source, ledger: Ledger, positions: Positions | None, status_interval_s: float
    ) -> None:
        self.confirmed_lsn = 0
        self._source = source
        self._ledger = ledger
        self._positions = positions
        self._interval_s = status_interval_s
        self._due = 0.0
        self._sent = 0.0
        self._asks = False

    @property
    def _confirmable(self) -> int:
        """The LSN up to which Kafka has the rows and, if positions are kept, the position."""
        flush_lsn = self._ledger.flush_lsn
        return flush_lsn if self._positions is None else min(flush_lsn, self._positions.lsn)

    @property
    def position_under_way(self) -> bool:
        """Kafka has not acknowledged the last position that was written."""
        return self._positions is not None and self._positions.under_way

    @property
    def position_pending(self) -> bool:
        """The position reached is not in Kafka yet; False if no positions are kept."""
        return self._positions is not None and self._positions.lsn < self._ledger.flush_lsn

    @property
    def position_waits_s(self) -> float:
        """Seconds since an unacknowledged position was written, while the slot stands still; else 0."""
        return 0.0 if self._positions is None else self._positions.waits_s

    def ask_for_one(self) -> None:
        """The server requested a status update at once."""
        self._due = 0.0

    def ask(self) -> None:
        """Ask the server for an answer, with a status update at once."""
        self._asks = True
        self._due = 0.0

    def turn(self, *, at_once: bool = False) -> None:
        """Write the position and send a status update, if they are due.

        `at_once`: the position is due even shortly after the last one.
        """
        if self._positions is not None:
            self._positions.keep(self._ledger.flush_lsn, at_once)
        now = time.monotonic()
        if now >= self._due or (self._confirmable > self.confirmed_lsn and now >= self._sent + _LEAST_S):
            self.send()

    def send(self) -> None:
        confirmable = self._confirmable
        sent = self._source.send_status(self._ledger.server_lsn, confirmable, reply=self._asks)
        self._sent = time.monotonic()
        # The server may take nothing for long, for example after it has ended the stream: don't spin.
        self._due = self._sent + (self._interval_s if sent else _LEAST_S)
        if sent:
            self.confirmed_lsn = confirmable
            self._asks = False

    def rest_s(self) -> float:
        """Seconds until something is due here, Kafka's acknowledgements aside."""
        rest_s = self._due - time.monotonic()
        if self._confirmable > self.confirmed_lsn:
            rest_s = min(rest_s, _LEAST_S)
        if self._positions is not None:
            rest_s = min(rest_s, self._positions.rest_s(self._ledger.flush_lsn))
        return rest_s
