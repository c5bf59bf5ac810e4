"""Turns one change into its records: an insert, update, delete, truncate or logical message.

Layout: manual, "Logical Replication Message Formats". Rows skip the classes of the wire room: the bytes of
the tuple go straight into the value, by the relation's plan. Frames are whole XLogData messages; `body_at` is
where the message's fields begin, after the tag and, inside a stream, the xid.
"""

from librt.strings import BytesWriter

from pgrelay.assembly.events import TransactionBegin
from pgrelay.encode.avro.json_keys import JsonKeys
from pgrelay.encode.boundaries import Boundaries
from pgrelay.encode.dead_letter import DeadLetters
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.formats import boundaries_of, json_keys, messages_of, row_writer
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.partitions import refuse_unsent
from pgrelay.encode.plan import Collection, Plan
from pgrelay.encode.records import (
    BY_KEY,
    CREATE,
    DELETE,
    EVERY_PARTITION,
    MESSAGE,
    TRUNCATE,
    UPDATE,
    Headers,
    Segment,
    Unchanged,
    record_size,
)
from pgrelay.encode.rows import OldValue, RowWriter, identity_mismatch
from pgrelay.encode.topics import Topics
from pgrelay.errors import ProtocolError, RecordError, SetupError
from pgrelay.wire import pgoutput
from pgrelay.wire.pgoutput import KEY_TUPLE, NEW_TUPLE, OLD_TUPLE
from pgrelay.wire.replication import HEADER_SIZE, STREAMED_BODY_AT, frame_lsn


class Changes:
    """Adds the records of each change to the current segment."""

    def __init__(self, options: RecordOptions, topics: Topics, envelope: Envelope) -> None:
        self._envelope = envelope
        self._segment: Segment | None = None
        # Records of the current transaction below this `seq` are skipped: see `Skips`.
        self._skip_below: int = 0
        self.messages = messages_of(options, topics.message)
        self.dead_letters = DeadLetters(topics.dead_letter, options.limits(topics.dead_letter))
        self._options = options
        self.boundaries: Boundaries | None = boundaries_of(options, topics.transaction)
        self._row: RowWriter = row_writer(options)
        self._json_keys: JsonKeys | None = json_keys(options)
        self._value = BytesWriter()
        self._image = BytesWriter()

    def begin(self, begin: TransactionBegin, skip_below: int) -> Segment:
        """Begin a transaction, skipping its records below `skip_below`. Returns its first segment."""
        self._envelope.begin(begin)
        self._skip_below = skip_below
        if self.boundaries is not None:
            self.boundaries.begin()
        self._segment = Segment(begin)
        return self._segment

    def continue_transaction(self) -> Segment | None:
        """Begin another segment of the current transaction, and return it; None outside of transactions."""
        if self._segment is not None:
            self._segment = Segment(None)
        return self._segment

    def end(self, end_lsn: int) -> None:
        segment = self._segment
        assert segment is not None, "a transaction ended that never began"
        if self.boundaries is not None and self.boundaries.has_records:
            segment.records.append(self.boundaries.end_record(self._envelope))
        segment.end_lsn = end_lsn
        self._segment = None
        self._envelope.end()

    def insert(self, plan: Plan, frame: bytes, body_at: int) -> None:
        if frame[body_at + 4] != NEW_TUPLE:
            raise ProtocolError(f"an insert into {plan.table} has no new row")
        value = self._value
        value.truncate(0)
        self._envelope.open_after(value, plan)
        _require_end(frame, self._row.write(value, plan, frame, body_at + 5))
        if self._add_record(plan, self._key(plan), frame, CREATE, self._row.unchanged):
            plan.creates += 1

    def update(self, plan: Plan, frame: bytes, body_at: int) -> None:
        if plan.old_rows_may_be_partial:
            _require_whole_old_row(plan, frame, body_at)
        kind = frame[body_at + 4]
        value = self._value
        value.truncate(0)
        if kind == NEW_TUPLE:
            self._envelope.open_after(value, plan)
            _require_end(frame, self._row.write(value, plan, frame, body_at + 5))
            if self._add_record(plan, self._key(plan), frame, UPDATE, self._row.unchanged):
                plan.updates += 1
            return
        old: list[OldValue | None] = []
        self._image.truncate(0)
        pos = self._row.write(
            self._image, plan, frame, body_at + 5, _holds_key_only(kind, plan, "update"), keep=old
        )
        before, old_key = self._image.getvalue(), self._key(plan)
        if frame[pos] != NEW_TUPLE:
            raise ProtocolError(f"an update of {plan.table} has no new row")
        self._image.truncate(0)
        _require_end(frame, self._row.write(self._image, plan, frame, pos + 1, old=old))
        after, new_key = self._image.getvalue(), self._key(plan)
        if new_key == old_key:
            self._envelope.write_both(value, plan, before, after)
            if self._add_record(plan, new_key, frame, UPDATE, self._row.unchanged):
                plan.updates += 1
        else:
            self._change_key(plan, frame, body_at, old_key, new_key, before, after)

    def _change_key(
        self,
        plan: Plan,
        frame: bytes,
        body_at: int,
        old_key: bytes | None,
        new_key: bytes | None,
        before: bytes,
        after: bytes,
    ) -> None:
        """A change of the key: a delete under the old key, then a create under the new.

        Each has the other key in a header, as JSON.
        """
        value, unchanged = self._value, self._row.unchanged  # the new row's
        old_header, new_header = old_key, new_key
        if self._json_keys is not None:
            old_header, new_header = self._json_keys.of_update(plan, frame, body_at + 5)
        self._envelope.open_before(value, plan)
        value.write(before)
        self._envelope.close_before(value)
        if self._add_record(plan, old_key, frame, DELETE, [], [("__debezium.newkey", new_header)]):
            plan.deletes += 1
        value.truncate(0)
        self._envelope.open_after(value, plan)
        value.write(after)
        if self._add_record(plan, new_key, frame, CREATE, unchanged, [("__debezium.oldkey", old_header)]):
            plan.creates += 1

    def delete(self, plan: Plan, frame: bytes, body_at: int) -> None:
        if plan.old_rows_may_be_partial:
            _require_whole_old_row(plan, frame, body_at)
        key_only = _holds_key_only(frame[body_at + 4], plan, "delete")
        value = self._value
        value.truncate(0)
        self._envelope.open_before(value, plan)
        _require_end(frame, self._row.write(value, plan, frame, body_at + 5, key_only))
        self._envelope.close_before(value)
        if self._add_record(plan, self._key(plan), frame, DELETE, self._row.unchanged):
            plan.deletes += 1

    def truncate(self, message: pgoutput.Truncate, plan: Plan, frame: bytes) -> None:
        value = self._value
        value.truncate(0)
        self._envelope.truncate(value, plan, message.cascade, message.restart_identity)
        if self._add_record(plan, None, frame, TRUNCATE, None):
            plan.truncates += 1
        assert self._segment is not None
        self._segment.has_truncate = True

    def message(self, message: pgoutput.Message, frame: bytes) -> None:
        value = self._value
        value.truncate(0)
        self._envelope.message(value, self.messages, message.prefix, message.content)
        key = self._envelope.message_key(self.messages, message.prefix) if self._options.key else None
        if self._add_record(self.messages, key, frame, MESSAGE, None):
            self.messages.messages += 1

    def set_aside(self, plan: Plan, frame: bytes, body_at: int, op: str, error: RecordError) -> None:
        """Make a dead letter of a row's change that can't be encoded. Like a record, it takes a `seq`."""
        if self._segment is None:
            raise error
        row = self.dead_letters.row_text(plan, parse_frame(frame, body_at))
        headers = [*self._headers(op, None), ("row", row)]
        self._dead_letter(self._key_only(plan, frame, body_at), error.value, error, headers)

    def _key_only(self, plan: Plan, frame: bytes, body_at: int) -> bytes | None:
        """The key of a row whose other columns can't all be encoded; None if the key can't be either."""
        self._image.truncate(0)
        try:
            self._row.write(self._image, plan, frame, body_at + 5, key_only=True)
        except RecordError:
            return None
        return self._key(plan)

    def _dead_letter(
        self, key: bytes | None, value: bytes | None, error: RecordError, headers: Headers
    ) -> None:
        segment, envelope = self._segment, self._envelope
        assert segment is not None, "a change outside any transaction"
        if envelope.seq >= self._skip_below:
            segment.records.append(self.dead_letters.record(key, value, error, headers))
        envelope.seq += 1

    def _key(self, plan: Plan) -> bytes | None:
        return self._row.key.getvalue() if plan.keyed else None

    def _add_record(
        self,
        collection: Collection,
        key: bytes | None,
        frame: bytes,
        op: str,
        unchanged: Unchanged,
        extra: Headers | None = None,
    ) -> bool:
        """Close the value and add the record, with a tombstone after a keyed delete.

        Without a key, all records go to one partition, so that order holds. False if it became a dead letter,
        or was delivered before: then it does not count as a record.
        """
        segment, envelope = self._segment, self._envelope
        if segment is None:
            raise ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} outside any transaction")
        boundaries = self.boundaries if envelope.in_transaction else None
        place = envelope.no_place if boundaries is None else boundaries.place(collection.table, envelope)
        envelope.close(self._value, collection, frame_lsn(frame), op, unchanged, place)
        value = self._value.getvalue()
        headers = self._headers(op, extra) if self._options.headers else extra
        topic = collection.topic
        refused = collection.limits.refusal(topic, key is not None, record_size(key, value, headers))
        if refused:
            error = RecordError(f"{collection.table}: {refused}", collection.table).with_lsn(frame_lsn(frame))
            self._dead_letter(key, value, error, self._headers(op, None))
            return False
        partition = EVERY_PARTITION if op == TRUNCATE else 0 if key is None else BY_KEY
        added = envelope.seq >= self._skip_below
        if added:
            if boundaries is not None and not boundaries.has_records:
                segment.records.append(boundaries.begin_record(envelope))
            segment.records.append((topic, key, value, headers, partition))
            if op == DELETE and key is not None and self._options.tombstones:
                segment.records.append((topic, key, None, headers, partition))
        if boundaries is not None:
            boundaries.count(collection.table)
        envelope.seq += 1
        return added

    def _headers(self, op: str, extra: Headers | None) -> Headers:
        envelope = self._envelope
        headers: Headers = [
            ("op", op.encode()),
            ("commit_lsn", b"%d" % envelope.commit_lsn),
            ("seq", b"%d" % envelope.seq),
            ("txid", envelope.xid_text if envelope.in_transaction else None),
        ]
        return headers if extra is None else headers + extra


def parse_frame(frame: bytes, body_at: int) -> pgoutput.PgoutputMessage:
    """The whole message. Raises ProtocolError."""
    return pgoutput.parse(frame, body_at == STREAMED_BODY_AT, HEADER_SIZE)


def _require_whole_old_row(plan: Plan, frame: bytes, body_at: int) -> None:
    """Raises SetupError or RecordError if the old row may be a partition's whose old rows are not whole."""
    partition = plan.non_full_partition
    if partition:
        raise SetupError(
            f"{plan.table} has REPLICA IDENTITY FULL, but its partition {partition} does not, so old rows "
            f"would have nulls in place of values; ALTER TABLE {partition} REPLICA IDENTITY FULL, and "
            "pgrelay skip the transactions with earlier changes, which are named then"
        )
    change = parse_frame(frame, body_at)
    assert isinstance(change, pgoutput.Update | pgoutput.Delete)
    if change.old is not None and not change.old_is_key:
        names = [column.name for column in plan.columns]
        refuse_unsent(plan.table, names, change.old, plan.partitions)


def _holds_key_only(kind: int, plan: Plan, what: str) -> bool:
    """Whether an old tuple holds only the key, instead of the whole old row.

    It may be called whole though the table is not FULL: the root of a partition became so, which the server
    does not tell. What is sent is still the partition's, of which only the root's key is certain. Without a
    key it is whole, or `_require_whole_old_row` has refused it.
    """
    if kind != KEY_TUPLE and kind != OLD_TUPLE:
        raise ProtocolError(f"the {what} of a row of {plan.table} has a tuple of unknown kind {chr(kind)!r}")
    if kind == KEY_TUPLE and not plan.has_key:
        raise identity_mismatch(plan.table, "")
    return kind == KEY_TUPLE or (plan.has_key and not plan.full)


def _require_end(frame: bytes, end: int) -> None:
    if end != len(frame):
        raise ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is oversized: bytes left at offset {end}")
