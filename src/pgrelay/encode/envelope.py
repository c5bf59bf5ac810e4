"""What surrounds the row in a value, for one transaction after another.

The base class keeps what every envelope says: which transaction, which record of it, when. Before the row it
writes the schema header and nothing else, as the flat envelopes need; a subclass writes what follows, in the
methods that raise here. Times are microseconds since 1970; `seq` counts a transaction's records from 0.
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
        self.previous_commit_lsn: int | None = None
        self.xid: int | None = None
        self.xid_text: bytes = b"null"  # the same in JSON
        self.origin: str | None = None
        # Written for a record that has no place in a transaction.
        self.no_place: bytes = b"null"

    def begin(self, begin: TransactionBegin) -> None:
        self.seq = 0
        self.commit_lsn = begin.commit_lsn
        self.commit_us = begin.commit_us
        self.in_transaction = begin.xid is not None
        self.xid = begin.xid
        self.xid_text = b"null" if begin.xid is None else b"%d" % begin.xid
        self.origin = None
        self.refresh()

    def end(self) -> None:
        if self.in_transaction:
            self.previous_commit_lsn = self.commit_lsn

    def set_origin(self, name: str) -> None:
        self.origin = name
        self.refresh()

    def set_clock(self, now_us: int) -> None:
        """Set the time at which records are encoded; once per batch."""
        self.now_us = now_us
        self.refresh()

    def refresh(self) -> None:
        """Called when transaction, origin or clock have changed: renew what is derived from them."""
        raise NotImplementedError

    def open_after(self, writer: BytesWriter, plan: Plan) -> None:
        """Write what precedes the new row of a create, or of an update whose old row was not sent."""
        writer.write(plan.schema_header.value)

    def open_before(self, writer: BytesWriter, plan: Plan) -> None:
        """Write what precedes the old row of a delete."""
        writer.write(plan.schema_header.value)

    def close_before(self, writer: BytesWriter) -> None:
        """Write what follows the old row of a delete."""

    def write_both(self, writer: BytesWriter, plan: Plan, before: bytes, after: bytes) -> None:
        """Write the rows of an update whose old row was sent."""
        writer.write(plan.schema_header.value)
        writer.write(after)

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        """Write a truncate, in place of rows."""
        raise NotImplementedError

    def message(self, writer: BytesWriter, collection: Collection, prefix: str, content: bytes) -> None:
        """Write a logical message, in place of rows."""
        raise NotImplementedError

    def message_key(self, collection: Collection, prefix: str) -> bytes:
        """The key of a logical message's record."""
        raise NotImplementedError

    def close(
        self,
        writer: BytesWriter,
        collection: Collection,
        lsn: int,
        op: str,
        unchanged: Unchanged,
        place: bytes,
    ) -> None:
        """Write all that follows the rows. `place`, from `Boundaries`, is the record's in its transaction."""
        raise NotImplementedError


class JsonEnvelope(Envelope):
    """What the JSON envelopes have in common: records without rows, which differ only in `write_member`."""

    def truncate(self, writer: BytesWriter, plan: Plan, cascade: bool, restart_identity: bool) -> None:
        content = b'{"cascade":%b,"restart_identity":%b}' % (_boolean(cascade), _boolean(restart_identity))
        self.write_member(writer, "truncate", content)

    def message(self, writer: BytesWriter, collection: Collection, prefix: str, content: bytes) -> None:
        encoded = b2a_base64(content, newline=False)
        self.write_member(writer, "message", b'{"prefix":%b,"content":"%b"}' % (json_name(prefix), encoded))

    def message_key(self, collection: Collection, prefix: str) -> bytes:
        return b'{"prefix":%b}' % json_name(prefix)

    def write_member(self, writer: BytesWriter, name: str, content: bytes) -> None:
        """Write a member of that name, with JSON content, in place of rows."""
        raise NotImplementedError


def _boolean(value: bool) -> bytes:
    return b"true" if value else b"false"
