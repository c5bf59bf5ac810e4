"""What is skipped, without records: what was delivered before, and a transaction that the operator skips.

After a crash Postgres sends again what was not confirmed, and `pgrelay skip` goes past a transaction that
can't be relayed. Skipped records use up their `seq` all the same.
"""

from pgrelay.assembly.events import TransactionBegin


class Skips:
    """`whole_transaction`: all of the current transaction is skipped; `requested`: by `skip_transaction`.

    `changes` is how many of its changes were skipped; whoever skips one counts it.
    """

    def __init__(self) -> None:
        self.whole_transaction = False
        self.requested = False
        self.changes: int = 0
        self._delivered_lsn: int = 0
        self._cut_lsn: int = -1
        self._cut_seq: int = 0
        self._requested_lsn: int = -1
        self._requested_message = False

    def skip_delivered(self, lsn: int, cut_lsn: int | None, cut_seq: int | None) -> None:
        """Skip transactions that end at or before `lsn`, and the records below `cut_seq` of the one that
        commits at `cut_lsn`."""
        self._delivered_lsn = lsn
        self._cut_lsn = -1 if cut_lsn is None else cut_lsn
        self._cut_seq = cut_seq or 0

    def skip_transaction(self, lsn: int, message: bool) -> None:
        """Skip the transaction that commits at `lsn`, although it was not delivered.

        With `message`, skip the logical message outside any transaction that ends there instead.
        """
        self._requested_lsn = lsn
        self._requested_message = message

    def begin(self, begin: TransactionBegin) -> int:
        """Begin a transaction; returns the `seq` below which its records are skipped, unless all of it is."""
        lsn, message = begin.commit_lsn, begin.xid is None
        # A message outside any transaction ends at its LSN, a transaction after it.
        delivered = lsn < self._delivered_lsn or (message and lsn == self._delivered_lsn)
        self.requested = lsn == self._requested_lsn and message == self._requested_message and not delivered
        self.whole_transaction = delivered or self.requested
        self.changes = 0
        return self._cut_seq if lsn == self._cut_lsn and not message else 0

    def end(self) -> None:
        self.whole_transaction = False
