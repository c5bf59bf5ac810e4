"""What surrounds the row in a value, for one transaction after the other.

The base class keeps what every envelope says: which transaction, which record of it, when. Before rows it
writes the plan's opening and nothing else, as the flat envelopes do; a subclass writes what follows rows, by
the methods that raise here. Times are microseconds since 1970; `seq` counts the records of a transaction from
0.
"""

from binascii import b2a_base64

from librt.strings import BytesWriter

from pgrelay.assembly.events import TransactionBegin
from pgrelay.encode.json_text import json_name
from pgrelay.encode.plan import Collection, Plan
from pgrelay.encode.records import Unchanged


class Envelope:
    """The current transaction, and the shape of its values."""

    def __init__(self) -> None:
        self.seq: int = 0
        self.commit_lsn: int = 0
        self.commit_us: int = 0
        self.now_us: int = 0
        self.in_transaction = False
        self.previous_commit: int | None = None
        self.xid_number: int | None = None
        self.xid: bytes = b"null"  # the same as JSON
        self.origin: str | None = None
        # What is written as the place of a record that has none in its transaction.
        self.no_place: bytes = b"null"

    def begin(self, begin: TransactionBegin) -> None:
        self.seq = 0
        self.commit_lsn = begin.commit_lsn
        self.commit_us = begin.commit_us
        self.in_transaction = begin.xid is not None
        self.xid_number = begin.xid
        self.xid = b"null" if begin.xid is None else b"%d" % begin.xid
        self.origin = None
        self.changed()

    def end(self) -> None:
        if self.in_transaction:
            self.previous_commit = self.commit_lsn

    def set_origin(self, name: str) -> None:
        self.origin = name
        self.changed()

    def set_clock(self, now_us: int) -> None:
        """Set the time at which records are encoded; once per batch."""
        self.now_us = now_us
        self.changed()

    def changed(self) -> None:
        """Called if transaction, origin or clock have changed: forget what was derived from them."""
        raise NotImplementedError

    def open_after(self, writer: BytesWriter, plan: Plan) -> None:
        """Write what precedes the new row of a create, or of an update whose old row was not sent."""
        writer.write(plan.opening.value)

    def open_before(self, writer: BytesWriter, plan: Plan) -> None:
        """Write what precedes the old row of a delete."""
        writer.write(plan.opening.value)

    def close_before(self, writer: BytesWriter) -> None:
        """Write what follows the old row of a delete."""

    def both(self, writer: BytesWriter, plan: Plan, before: bytes, after: bytes) -> None:
        """Write the rows of an update whose old row was sent."""
        writer.write(plan.opening.value)
        writer.write(after)

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        """Write a truncate, in place of rows."""
        raise NotImplementedError

    def message(self, writer: BytesWriter, of: Collection, prefix: str, content: bytes) -> None:
        """Write a logical message, in place of rows."""
        raise NotImplementedError

    def message_key(self, of: Collection, prefix: str) -> bytes:
        """The key of a logical message's record."""
        raise NotImplementedError

    def close(
        self, writer: BytesWriter, of: Collection, lsn: int, op: str, unchanged: Unchanged, place: bytes
    ) -> None:
        """Write all that follows the rows. `place`, from `Boundaries`, is the record's in its transaction."""
        raise NotImplementedError


class JsonEnvelope(Envelope):
    """What the JSON envelopes have in common: records without rows, which differ only in `rowless`."""

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        content = b'{"cascade":%b,"restart_identity":%b}' % (_boolean(cascade), _boolean(restart_identity))
        self.rowless(writer, "truncate", content)

    def message(self, writer: BytesWriter, of: Collection, prefix: str, content: bytes) -> None:
        encoded = b2a_base64(content, newline=False)
        self.rowless(writer, "message", b'{"prefix":%b,"content":"%b"}' % (json_name(prefix), encoded))

    def message_key(self, of: Collection, prefix: str) -> bytes:
        return b'{"prefix":%b}' % json_name(prefix)

    def rowless(self, writer: BytesWriter, name: str, content: bytes) -> None:
        """Write a member of that name, with JSON content, in place of rows."""
        raise NotImplementedError


def _boolean(value: bool) -> bytes:
    return b"true" if value else b"false"
