"""Warnings of a mirror of whole transactions: of what is lost, and of what waits without progress."""

from typing import Any, Final

import structlog

from pgrelay.lsn import format_lsn
from pgrelay.spark.mirrors.transactions import HeldBack, Incomplete, Reach

_log = structlog.get_logger(__name__)

_LOST: Final = "retention, startingOffsets or the relay left them out, or they can't be read"
_WAITING_CURE: Final = (
    "if they are lost, start with a new checkpoint, and with startingOffsets after them in all topics, "
    "including the transaction topic"
)
_UNTOLD_CURE: Final = (
    "if the relay's records.transaction_topic was switched off, switch it on again: the end of its next "
    "transaction releases them"
)


class Standstill:
    """Reports what waits, once, if it is the same after two batches in a row."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        self._told = False

    def to_tell(self, waiting: tuple[Any, ...]) -> tuple[Any, ...]:
        """What to report now, given what waits after a batch."""
        stands = waiting == self._last
        telling = waiting if stands and not self._told else ()
        self._last, self._told = waiting, stands
        return telling


class TransactionWarnings:
    """The warnings of one query, which reads the transaction topic `topic`."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting = Standstill()
        self._untold = Standstill()

    def tell(self, reached: Reach, held: HeldBack, *, moved: bool) -> None:
        """Warn after a batch. `moved`: it applied transactions."""
        for each in reached.lost:
            _log.warning(
                "a transaction is applied without records that are missing", **_fields(each), reason=_LOST
            )
        for each in self._waiting.to_tell(reached.waiting):
            _log.warning(
                "transactions wait for missing records of this one", **_fields(each), cure=_WAITING_CURE
            )
        untold = () if moved or held.untold is None else (held.untold,)
        for lsn, table in self._untold.to_tell(untold):
            _log.warning(
                "transactions wait for their ends, but the transaction topic has none",
                table=table,
                commit_lsn=format_lsn(lsn),
                topic=self._topic,
                cure=_UNTOLD_CURE,
            )


def _fields(transaction: Incomplete) -> dict[str, str | int]:
    """The fields of a log line about a transaction that lacks records."""
    return {
        "table": transaction.topic,
        "commit_lsn": format_lsn(transaction.commit_lsn),
        "records": transaction.here,
        "of": transaction.events,
    }
