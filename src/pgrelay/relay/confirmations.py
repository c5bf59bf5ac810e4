"""When to send a StandbyStatusUpdate, which moves the slot and keeps the stream alive, and with which LSN."""

import time
from typing import Final

from pgrelay.postgres.source import Source
from pgrelay.progress import Ledger
from pgrelay.relay.guarantee import DeliveryGuarantee

# Between updates that move the slot: one per acknowledgement would cost both ends more than the rows.
_MIN_INTERVAL_S: Final = 0.01


class Confirmations:
    """`confirmed_lsn` is the LSN last confirmed to the server."""

    def __init__(
        self, source: Source, ledger: Ledger, guarantee: DeliveryGuarantee, status_interval_s: float
    ) -> None:
        self.confirmed_lsn = 0
        self._source = source
        self._ledger = ledger
        self._guarantee = guarantee
        self._interval_s = status_interval_s
        self._due = 0.0
        self._sent_at = 0.0
        self._requests_reply = False

    def reply(self) -> None:
        """Have a status update sent at once: the server has requested it."""
        self._due = 0.0

    def request_reply(self) -> None:
        """Have one sent at once that requests a reply from the server."""
        self._requests_reply = True
        self._due = 0.0

    def turn(self, *, at_once: bool = False) -> None:
        """Write the position and send a status update, if they are due.

        `at_once`: the position is due even if the last one was just written.
        """
        # A server that requests a reply may be waiting for its slot to move, as during shutdown.
        self._guarantee.write_position(at_once=at_once or self._due == 0)
        now = time.monotonic()
        if now >= self._due or (self._is_behind and now >= self._sent_at + _MIN_INTERVAL_S):
            self.send()

    def send(self) -> None:
        confirmable = self._guarantee.confirmable_lsn
        sent = self._source.send_status(self._ledger.server_lsn, confirmable, reply=self._requests_reply)
        self._sent_at = time.monotonic()
        # The server may accept nothing for long, for example after it has ended the stream: don't spin.
        self._due = self._sent_at + (self._interval_s if sent else _MIN_INTERVAL_S)
        if sent:
            self.confirmed_lsn = confirmable
            self._requests_reply = False

    def due_in_s(self) -> float:
        """Seconds until `turn` has something to do, whatever Kafka acknowledges."""
        due_in_s = min(self._due - time.monotonic(), self._guarantee.position_due_in_s())
        return min(due_in_s, _MIN_INTERVAL_S) if self._is_behind else due_in_s

    @property
    def _is_behind(self) -> bool:
        """More may be confirmed than has been."""
        return self._guarantee.confirmable_lsn > self.confirmed_lsn
