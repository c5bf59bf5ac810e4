"""What Postgres is told, and when: StandbyStatusUpdate, which moves the slot and keeps the stream alive."""

import time
from typing import Final

from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.guarantee import DeliveryGuarantee

# Between updates that move the slot: one per acknowledgement would cost both ends more than the rows.
_LEAST_S: Final = 0.01


class Confirmations:
    """`confirmed_lsn` is the LSN that the server was last told."""

    def __init__(
        self, source: Source, ledger: Ledger, guarantee: DeliveryGuarantee, status_interval_s: float
    ) -> None:
        self.confirmed_lsn = 0
        self._source = source
        self._ledger = ledger
        self._guarantee = guarantee
        self._interval_s = status_interval_s
        self._due = 0.0
        self._sent = 0.0
        self._asks = False

    def answer(self) -> None:
        """Send a status update at once: the server has asked for one."""
        self._due = 0.0

    def ask(self) -> None:
        """Send one at once that asks the server for an answer."""
        self._asks = True
        self._due = 0.0

    def turn(self, *, at_once: bool = False) -> None:
        """Write the position and send a status update, if they are due.

        `at_once`: the position is due even shortly after the last one.
        """
        # A server that asks may wait for its slot to move: as it stops, it does.
        self._guarantee.write_position(at_once=at_once or self._due == 0)
        now = time.monotonic()
        if now >= self._due or (self._lags and now >= self._sent + _LEAST_S):
            self.send()

    def send(self) -> None:
        confirmable = self._guarantee.confirmable_lsn
        sent = self._source.send_status(self._ledger.server_lsn, confirmable, reply=self._asks)
        self._sent = time.monotonic()
        # The server may take nothing for long, for example after it has ended the stream: don't spin.
        self._due = self._sent + (self._interval_s if sent else _LEAST_S)
        if sent:
            self.confirmed_lsn = confirmable
            self._asks = False

    def due_in_s(self) -> float:
        """Seconds until something is due here, Kafka's acknowledgements aside."""
        rest_s = min(self._due - time.monotonic(), self._guarantee.position_due_in_s())
        return min(rest_s, _LEAST_S) if self._lags else rest_s

    @property
    def _lags(self) -> bool:
        """More may be confirmed than was."""
        return self._guarantee.confirmable_lsn > self.confirmed_lsn
