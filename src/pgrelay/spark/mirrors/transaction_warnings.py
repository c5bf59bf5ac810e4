"""Warnings of a mirror of whole transactions: about lost records, and about what waits without progress."""

from typing import Any, Final

import structlog

from pgrelay.lsn import format_lsn
from pgrelay.spark.mirrors.transactions import HeldBack, Incomplete, TransactionProgress

_log = structlog.get_logger(__name__)

_LOST: Final = "retention, startingOffsets or the relay left them out, or they can't be read"
_WAITING_CURE: Final = (
    "if they are lost, start with a new checkpoint, and with startingOffsets after them in all topics, "
    "including the transaction topic"
)
_UNENDED_CURE: Final = (
    "if the relay's records.transaction_topic was switched off, switch it on again: the end of its next "
    "transaction releases them"
)


class Standstill:
    """Reports what is waiting if it is the same after two batches in a row, but only once."""

    def __init__(self) -> None:
        self._last: tuple[Any, ...] = ()
        self._is_reported = False

    def to_report(self, waiting: tuple[Any, ...]) -> tuple[Any, ...]:
        """What to report now, given what is waiting after a batch."""
        is_same = waiting == self._last
        report = waiting if is_same and not self._is_reported else ()
        self._last, self._is_reported = waiting, is_same
        return report


class TransactionWarnings:
    """The warnings of one query, which reads the transaction topic `topic`."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting = Standstill()
        self._unended = Standstill()

    def log(self, progress: TransactionProgress, held: HeldBack, *, has_applied: bool) -> None:
        """Warn after a batch. `has_applied`: it applied transactions."""
        for each in progress.lost:
            _log.warning(
                "a transaction is applied without records that are missing", **_fields(each), reason=_LOST
            )
        for each in self._waiting.to_report(progress.waiting):
            _log.warning(
                "transactions wait for missing records of this one", **_fields(each), cure=_WAITING_CURE
            )
        first = held.first_without_boundaries
        for lsn, table in self._unended.to_report(() if has_applied or first is None else (first,)):
            _log.warning(
                "transactions wait for their ends, but the transaction topic has none",
                table=table,
                commit_lsn=format_lsn(lsn),
                topic=self._topic,
                cure=_UNENDED_CURE,
            )


def _fields(transaction: Incomplete) -> dict[str, str | int]:
    """The fields of a log line about a transaction that lacks records."""
    return {
        "table": transaction.topic,
        "commit_lsn": format_lsn(transaction.commit_lsn),
        "records": transaction.received,
        "of": transaction.events,
    }
