"""What stands around the row in a value, for one transaction after the other.

The base keeps what every envelope tells: which transaction, which record of it, when. A kind of envelope says
what is written before, between and after the rows, by the methods that raise here. Times are microseconds
since 1970; `seq` counts the records of a transaction from 0.
"""

from typing import Final

from librt.strings import BytesWriter

from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, json_text
from pgrelay.events import TransactionBegin

_ALL: Final = 1 << 62


class Envelope:
    """The transaction on its way out, and the shape of its values."""

    def __init__(self, options: RecordOptions) -> None:
        self.seq: int = 0
        # Records of this transaction below it were delivered before: see `skip`.
        self.skip_below: int = 0
        self._skip_lsn: int = 0
        self._cut_lsn: int = -1
        self._cut_seq: int = 0
        self.commit_lsn: int = 0
        self.commit_us: int = 0
        self.now_us: int = 0
        # Transactions are numbered, so that a plan can tell whether what it has cached is of this one.
        self.serial: int = 0
        self.in_transaction = False
        self.previous_commit: int | None = None
        self.xid: bytes = b"null"
        self.origin: bytes = b"null"

    def begin(self, begin: TransactionBegin) -> None:
        self.serial += 1
        self.seq = 0
        self.skip_below = self._skip_below(begin.commit_lsn)
        self.commit_lsn = begin.commit_lsn
        self.commit_us = begin.commit_us
        self.in_transaction = begin.xid is not None
        self.xid = b"null" if begin.xid is None else b"%d" % begin.xid
        self.origin = b"null"
        self.changed()

    def skip(self, lsn: int, cut_lsn: int | None, cut_seq: int | None) -> None:
        """Leave out what was delivered: transactions that end at `lsn` or before, and of the one that commits
        at `cut_lsn` the records below `cut_seq`."""
        self._skip_lsn = lsn
        self._cut_lsn = -1 if cut_lsn is None else cut_lsn
        self._cut_seq = cut_seq or 0

    @property
    def all_skipped(self) -> bool:
        """The whole transaction was delivered before."""
        return self.skip_below == _ALL

    def _skip_below(self, commit_lsn: int) -> int:
        if commit_lsn < self._skip_lsn:
            return _ALL
        return self._cut_seq if commit_lsn == self._cut_lsn else 0

    def end(self) -> None:
        self.previous_commit = self.commit_lsn

    def set_origin(self, name: str) -> None:
        self.origin = json_text(name)
        self.changed()

    def set_clock(self, now_us: int) -> None:
        """When records are encoded from now on; once for a batch."""
        self.now_us = now_us
        self.changed()

    def changed(self) -> None:
        """Transaction, origin or clock are not what they were: forget what was made of them."""
        raise NotImplementedError

    def open_after(self, writer: BytesWriter) -> None:
        """Before the new row of a create, or of an update whose old row was not sent."""
        raise NotImplementedError

    def open_before(self, writer: BytesWriter) -> None:
        """Before the old row of a delete."""
        raise NotImplementedError

    def close_before(self, writer: BytesWriter) -> None:
        """After the old row of a delete."""
        raise NotImplementedError

    def both(self, writer: BytesWriter, before: bytes, after: bytes) -> None:
        """The rows of an update whose old row was sent."""
        raise NotImplementedError

    def rowless(self, writer: BytesWriter, name: str, content: bytes) -> None:
        """A truncate or a logical message: a member of that name, its content JSON, in place of rows."""
        raise NotImplementedError

    def close(
        self, writer: BytesWriter, plan: Plan | None, lsn: int, op: str, unchanged: list[bytes], order: bytes
    ) -> None:
        """Everything after the rows. `order` is the record's place in its transaction, JSON."""
        raise NotImplementedError


def list_of(names: list[bytes]) -> bytes:
    """A JSON array of what is JSON already."""
    return b"[" + b",".join(names) + b"]"
