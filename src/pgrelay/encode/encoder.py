"""Events in commit order to Kafka records.

Theory of operation. The encoder takes the assembler's events and gives segments: the records of (part of) one
transaction. It keeps the relations that the session knows, as plans. A Relation that it has not seen needs
facts that only the catalogue has, and a topic that must exist before the first record, so it stops there:
`wanted` holds the relation until `learn` is called, and `encode` goes on from there; likewise before the
first logical message, until `allow_messages`. Each row is thus encoded by the Relation that preceded it.
A transaction that is `scoped` (it was prepared, perhaps long ago) brings its own relations and leaves the
session's alone.
"""

import base64
from typing import Final

from librt.strings import BytesWriter

from pgrelay.encode.envelope import CREATE, DELETE, MESSAGE, NO_ROWS, TRUNCATE, UPDATE, Envelope
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, RelationFacts, json_text
from pgrelay.encode.rows import OldValue, RowWriter
from pgrelay.encode.topics import Topics
from pgrelay.errors import PgrelayError, ProtocolError
from pgrelay.events import Event, Reached, TransactionBegin, TransactionEnd
from pgrelay.wire import pgoutput
from pgrelay.wire.cursor import read_u32
from pgrelay.wire.pgoutput import KEY_TUPLE, NEW_TUPLE, OLD_TUPLE
from pgrelay.wire.replication import HEADER_SIZE, frame_lsn

# Kafka's client takes a header's value as text, bytes or nothing; ours are bytes.
Headers = list[tuple[str, str | bytes | None]]

# Where a record goes: the partition its key hashes to, or every partition of the topic.
BY_KEY: Final = -1
EVERY: Final = -2

# Topic, key, value (None: a tombstone), headers, partition.
Record = tuple[str, bytes | None, bytes | None, Headers | None, int]

_INSERT: Final = ord("I")
_UPDATE: Final = ord("U")
_DELETE: Final = ord("D")
_RELATION: Final = ord("R")
_TYPE: Final = ord("Y")


class Segment:
    """Records of one transaction. `begin` is None where it goes on from the segment before, `end_lsn` None
    where it goes on in the next. `has_truncate`: one of its records is for every partition."""

    def __init__(self, begin: TransactionBegin | None) -> None:
        self.begin = begin
        self.records: list[Record] = []
        self.end_lsn: int | None = None
        self.has_truncate = False


class Encoder:
    """One session's encoder: relations, and the transaction on its way out."""

    def __init__(self, options: RecordOptions, topics: Topics) -> None:
        self.wanted: pgoutput.Relation | None = None
        self.wants_message_topic = False
        self._plans: list[Plan] = []
        self._messages = 0
        self._messages_allowed = False
        self._options = options
        self._topics = topics
        self._envelope = Envelope(options)
        self._row = RowWriter(options.placeholder)
        self._value = BytesWriter()
        self._before = BytesWriter()
        self._session: dict[int, Plan] = {}
        self._scoped: dict[int, Plan] | None = None
        # Plans by the Relation message that made them: a streamed transaction sends its relations again.
        self._made: dict[bytes, Plan] = {}
        self._wanted_bytes: bytes = b""
        self._events: list[Event] = []
        self._next = 0
        self._body = HEADER_SIZE + 1
        self._segment: Segment | None = None

    @property
    def pending(self) -> bool:
        """Events were fed that are not encoded yet."""
        return self._next < len(self._events)

    @property
    def message_topic(self) -> str:
        """The topic of logical messages."""
        return self._topics.message

    def take_counts(self) -> list[tuple[str, str, int]]:
        """Table, op and number of the records encoded since the last call."""
        counts = [("message", MESSAGE, self._messages)] if self._messages else []
        self._messages = 0
        for plan in self._plans:
            counts += plan.take_counts()
        return counts

    def feed(self, events: list[Event]) -> None:
        """Take more events; only once those before are all encoded."""
        assert not self.pending, "events are fed before the earlier ones are encoded"
        self._events = events
        self._next = 0

    def encode(self, now_us: int) -> list[Segment | Reached]:
        """Encode what was fed, up to a relation or a topic that is wanted. `now_us` is since 1970.

        Raises ProtocolError, RecordError or SetupError, naming the LSN.
        """
        self._envelope.set_clock(now_us)
        done: list[Segment | Reached] = []
        if self._segment is not None:
            self._segment = Segment(None)
            done.append(self._segment)
        events = self._events
        while self._next < len(events) and self.wanted is None and not self.wants_message_topic:
            event = events[self._next]
            self._next += 1
            if isinstance(event, bytes):
                self._frame(event)
            elif isinstance(event, TransactionBegin):
                self._segment = Segment(event)
                done.append(self._segment)
                self._envelope.begin(event)
                self._body = HEADER_SIZE + (5 if event.streamed else 1)
                self._scoped = {} if event.scoped else None
            elif isinstance(event, TransactionEnd):
                assert self._segment is not None
                self._segment.end_lsn = event.end_lsn
                self._segment = None
                self._envelope.end()
                self._body = HEADER_SIZE + 1
                self._scoped = None
            else:
                done.append(event)
        return done

    def learn(self, facts: RelationFacts) -> Plan:
        """Plan the wanted relation. Raises SetupError where its topic is another table's."""
        relation = self.wanted
        assert relation is not None, "no relation is wanted"
        plan = Plan(relation, facts, self._topics.of_table(relation.namespace, relation.name), self._options)
        self._plans.append(plan)
        if relation.replica_identity != "f":
            # Under FULL the key is the catalogue's and may change with the same Relation message.
            self._made[self._wanted_bytes] = plan
        self._know(relation.oid, plan)
        self.wanted = None
        return plan

    def allow_messages(self) -> None:
        """The topic of logical messages exists."""
        self._messages_allowed = True
        self.wants_message_topic = False

    def _know(self, oid: int, plan: Plan) -> None:
        (self._session if self._scoped is None else self._scoped)[oid] = plan

    def _frame(self, frame: bytes) -> None:
        try:
            self._message(frame[HEADER_SIZE], frame)
        except IndexError:
            error = ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is truncated")
            raise error.at(frame_lsn(frame)) from None
        except PgrelayError as error:
            raise error.at(frame_lsn(frame)) from error

    def _message(self, tag: int, frame: bytes) -> None:
        if tag == _INSERT:
            self._insert(frame)
        elif tag == _UPDATE:
            self._update(frame)
        elif tag == _DELETE:
            self._delete(frame)
        elif tag == _RELATION:
            self._relation(frame)
        elif tag != _TYPE:
            self._rare(frame)

    def _relation(self, frame: bytes) -> None:
        streamed = self._body != HEADER_SIZE + 1
        body = frame[self._body :]
        oid = read_u32(body, 0)
        plan = self._made.get(body)
        if plan is not None:
            self._know(oid, plan)
            return
        message = pgoutput.parse(frame, streamed, HEADER_SIZE)
        assert isinstance(message, pgoutput.Relation)
        self.wanted = message
        self._wanted_bytes = body

    def _plan(self, oid: int) -> Plan:
        plan = (self._session if self._scoped is None else self._scoped).get(oid)
        if plan is None:
            raise ProtocolError(f"a change of relation {oid}, which no Relation message described")
        return plan

    def _insert(self, frame: bytes) -> None:
        plan = self._plan(read_u32(frame, self._body))
        if frame[self._body + 4] != NEW_TUPLE:
            raise ProtocolError(f"an insert into {plan.table} has no new row")
        value = self._value
        value.truncate(0)
        value.write(b'{"before":null,"after":')
        end = self._row.write(value, plan, frame, self._body + 5, False, None, None)
        self._finish(frame, end)
        plan.creates += 1
        self._emit(plan, self._key(plan), frame, CREATE, None)

    def _update(self, frame: bytes) -> None:
        plan = self._plan(read_u32(frame, self._body))
        pos = self._body + 5
        kind = frame[pos - 1]
        value = self._value
        value.truncate(0)
        if kind == NEW_TUPLE:
            value.write(b'{"before":null,"after":')
            self._finish(frame, self._row.write(value, plan, frame, pos, False, None, None))
            plan.updates += 1
            self._emit(plan, self._key(plan), frame, UPDATE, None)
            return
        if kind != KEY_TUPLE and kind != OLD_TUPLE:
            raise ProtocolError(f"an update of {plan.table} has a tuple of unknown kind {chr(kind)!r}")
        old: list[OldValue | None] = []
        self._before.truncate(0)
        pos = self._row.write(self._before, plan, frame, pos, kind == KEY_TUPLE, None, old) + 1
        old_key = self._key(plan)
        if frame[pos - 1] != NEW_TUPLE:
            raise ProtocolError(f"an update of {plan.table} has no new row")
        before = self._before.getvalue()
        self._before.truncate(0)
        self._finish(frame, self._row.write(self._before, plan, frame, pos, False, old, None))
        new_key = self._key(plan)
        after = self._before.getvalue()
        if new_key == old_key:
            value.write(b'{"before":' + before + b',"after":' + after)
            plan.updates += 1
            self._emit(plan, new_key, frame, UPDATE, None)
            return
        self._move(plan, frame, old_key, new_key, before, after)

    def _move(
        self,
        plan: Plan,
        frame: bytes,
        old_key: bytes | None,
        new_key: bytes | None,
        before: bytes,
        after: bytes,
    ) -> None:
        """A change of the key: the old key's row ends, the new key's begins."""
        plan.deletes += 1
        plan.creates += 1
        unchanged = self._row.unchanged
        self._row.unchanged = []
        self._value.write(b'{"before":' + before + b',"after":null')
        self._emit(plan, old_key, frame, DELETE, [("__debezium.newkey", new_key or b"null")])
        self._row.unchanged = unchanged
        self._value.truncate(0)
        self._value.write(b'{"before":null,"after":' + after)
        self._emit(plan, new_key, frame, CREATE, [("__debezium.oldkey", old_key or b"null")])

    def _delete(self, frame: bytes) -> None:
        plan = self._plan(read_u32(frame, self._body))
        pos = self._body + 5
        kind = frame[pos - 1]
        if kind != KEY_TUPLE and kind != OLD_TUPLE:
            raise ProtocolError(f"a delete from {plan.table} has a tuple of unknown kind {chr(kind)!r}")
        value = self._value
        value.truncate(0)
        value.write(b'{"before":')
        self._finish(frame, self._row.write(value, plan, frame, pos, kind == KEY_TUPLE, None, None))
        value.write(b',"after":null')
        plan.deletes += 1
        self._emit(plan, self._key(plan), frame, DELETE, None)

    def _key(self, plan: Plan) -> bytes | None:
        return self._row.key.getvalue() if plan.keyed else None

    def _finish(self, frame: bytes, end: int) -> None:
        if end != len(frame):
            raise ProtocolError(
                f"message {chr(frame[HEADER_SIZE])!r} is oversized: bytes left at offset {end}"
            )

    def _emit(self, plan: Plan, key: bytes | None, frame: bytes, op: str, extra: Headers | None) -> None:
        """Close the value and add the record, with a tombstone behind a delete."""
        segment = self._segment
        if segment is None:
            raise ProtocolError(f"a change of {plan.table} outside any transaction")
        if self._row.unchanged:
            self._value.write(b',"unchanged":[' + b",".join(self._row.unchanged) + b"]")
        self._envelope.close(self._value, plan, frame_lsn(frame), op)
        headers = self._headers(op, extra) if self._options.headers else extra
        # Without a key there is one partition, so that order holds.
        partition = BY_KEY if key is not None else 0
        segment.records.append((plan.topic, key, self._value.getvalue(), headers, partition))
        if op == DELETE and key is not None and self._options.tombstones:
            segment.records.append((plan.topic, key, None, headers, partition))
        self._envelope.seq += 1

    def _headers(self, op: str, extra: Headers | None) -> Headers:
        envelope = self._envelope
        headers: Headers = [
            ("op", op.encode()),
            ("commit_lsn", b"%d" % envelope.commit_lsn),
            ("seq", b"%d" % envelope.seq),
            ("txid", envelope.xid),
        ]
        return headers if extra is None else headers + extra

    def _rare(self, frame: bytes) -> None:
        """Truncate, logical message and origin: parsed in full, being few."""
        message = pgoutput.parse(frame, self._in_stream(frame), HEADER_SIZE)
        if isinstance(message, pgoutput.Origin):
            self._envelope.set_origin(message.name)
        elif isinstance(message, pgoutput.Truncate):
            self._truncate(message, frame)
        elif isinstance(message, pgoutput.Message) and not self._messages_allowed:
            self.wants_message_topic = True
            self._next -= 1
        elif isinstance(message, pgoutput.Message):
            self._logical_message(message, frame)
        else:
            raise ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is no change")

    def _in_stream(self, frame: bytes) -> bool:
        return self._body != HEADER_SIZE + 1 and frame[HEADER_SIZE] != ord("O")

    def _truncate(self, message: pgoutput.Truncate, frame: bytes) -> None:
        for oid in message.relation_oids:
            plan = self._plan(oid)
            plan.truncates += 1
            self._value.truncate(0)
            self._value.write(
                NO_ROWS
                + b',"truncate":{"cascade":%b,"restart_identity":%b}'
                % (_boolean(message.cascade), _boolean(message.restart_identity))
            )
            self._emit_rowless(plan, plan.topic, None, frame, TRUNCATE, EVERY).has_truncate = True

    def _logical_message(self, message: pgoutput.Message, frame: bytes) -> None:
        prefix = json_text(message.prefix)
        self._value.truncate(0)
        self._value.write(
            NO_ROWS + b',"message":{"prefix":%b,"content":"%b"}' % (prefix, base64.b64encode(message.content))
        )
        self._messages += 1
        key = b'{"prefix":%b}' % prefix if self._options.key else None
        partition = BY_KEY if self._options.key else 0
        self._emit_rowless(None, self._topics.message, key, frame, MESSAGE, partition)

    def _emit_rowless(
        self, plan: Plan | None, topic: str, key: bytes | None, frame: bytes, op: str, partition: int
    ) -> Segment:
        segment = self._segment
        if segment is None:
            raise ProtocolError("a truncate or message outside any transaction")
        self._envelope.close(self._value, plan, frame_lsn(frame), op)
        headers = self._headers(op, None) if self._options.headers else None
        segment.records.append((topic, key, self._value.getvalue(), headers, partition))
        self._envelope.seq += 1
        return segment


def _boolean(value: bool) -> bytes:
    return b"true" if value else b"false"
