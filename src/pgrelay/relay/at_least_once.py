"""At least once: a record counts as delivered once Kafka acknowledges it; after a crash, some come again."""

from typing import Final

from pgrelay.kafka.sink import Sink
from pgrelay.progress import InFlight, Ledger
from pgrelay.relay.confirmations import Confirmations


class AtLeastOnce:
    """The `DeliveryGuarantee` of a sink without transactions. There is nothing to recover or to commit."""

    recovering = False
    hurries: Final = True
    wants_boundary: Final = False

    def __init__(self, sink: Sink, ledger: Ledger, confirmations: Confirmations) -> None:
        self.relayed_lsn = 0
        self._sink = sink
        self._ledger = ledger
        self._confirmations = confirmations

    @property
    def standing(self) -> tuple[int, int] | None:
        return self._ledger.standing

    def recover(self) -> None:
        return None

    def entered(self, entry: InFlight, reaches: int, *, has_records: bool) -> None:
        if has_records:
            # Consumers see a record as soon as a broker has it.
            self.relayed_lsn = reaches

    def due_commit(self, *, nothing_else: bool) -> None:
        return None

    def commit(self) -> None:
        return None

    def may_settle(self, *, refused: bool) -> bool:
        if not self._ledger.waiting:
            return False
        # Records before the refused one are still acknowledged, if there are any and Kafka lets us in.
        return not refused or (self._sink.in_queue > 0 and not self._sink.failures.shut_out)

    @property
    def awaits_confirmation(self) -> bool:
        return self._ledger.waiting or self._confirmations.position_pending
