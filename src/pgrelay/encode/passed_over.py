"""What is passed over, without records: what was delivered before, and what is left out on request.

After a crash Postgres sends again what was not confirmed, and `pgrelay skip` goes past a transaction that
can't be relayed. Records that are passed over take their `seq` all the same.
"""

from pgrelay.assembly.events import TransactionBegin


class PassedOver:
    """`whole`: the current transaction is passed over. `left_out`: it is because `leave_out` asked for it.

    `changes` is how many of its changes were passed over as a whole; whoever passes over one counts it.
    """

    def __init__(self) -> None:
        self.whole = False
        self.left_out = False
        self.changes: int = 0
        self._delivered_lsn: int = 0
        self._cut_lsn: int = -1
        self._cut_seq: int = 0
        self._leave_out: int = -1
        self._leave_out_message = False

    def skip(self, lsn: int, cut_lsn: int | None, cut_seq: int | None) -> None:
        """Pass over what was delivered: transactions that end at `lsn` or before, and the records below
        `cut_seq` of the one that commits at `cut_lsn`."""
        self._delivered_lsn = lsn
        self._cut_lsn = -1 if cut_lsn is None else cut_lsn
        self._cut_seq = cut_seq or 0

    def leave_out(self, lsn: int, message: bool) -> None:
        """Pass over the transaction that commits at `lsn`, although it was not delivered.

        With `message`, pass over the logical message outside transactions that ends there instead.
        """
        self._leave_out = lsn
        self._leave_out_message = message

    def begin(self, begin: TransactionBegin) -> int:
        """A transaction begins; returns the `seq` below which its records are passed over, if not `whole`."""
        lsn, message = begin.commit_lsn, begin.xid is None
        # A message outside any transaction ends at its LSN, a transaction after it.
        delivered = lsn < self._delivered_lsn or (message and lsn == self._delivered_lsn)
        self.left_out = lsn == self._leave_out and message == self._leave_out_message and not delivered
        self.whole = delivered or self.left_out
        self.changes = 0
        return self._cut_seq if lsn == self._cut_lsn and not message else 0

    def end(self) -> None:
        self.whole = False
