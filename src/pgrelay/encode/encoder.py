"""Events in commit order to segments of Kafka records.

Theory of operation. The encoder keeps the relations that the session knows, as plans, and hands each change
to the plan of its relation. Where it needs what only the outside can give, it stops and says so in `need`:

FactsNeeded    a Relation that it has not seen: facts that only the catalogue has; answered by `learn`
Announcement   a plan is about to be used for the first time, or another one was since: its topic must exist,
               and its schema be known to consumers, before the first row; answered by `met`
TopicNeeded    the topic of the first logical message; in Avro also that of transactions; answered by `met`

In Avro the answer to the latter two brings the ids under which a registry knows the schemas. The first two
also name, in `ahead`, what will be needed soon: whoever can is welcome to answer that as well.

`encode` then goes on where it stopped. Each row is thus encoded by the Relation that preceded it. A scoped
transaction (it was prepared, perhaps long ago) brings its own relations and leaves the session's alone. A
Relation outside any transaction came with a PREPARE, and what it tells may never be committed: it is read
when a later row of the session needs it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pgrelay.assembly.events import Event, Reached, TransactionBegin, TransactionEnd
from pgrelay.encode.ahead import Ahead, relations_ahead
from pgrelay.encode.announced import Announced
from pgrelay.encode.avro.body import header
from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.encode.changes import Changes
from pgrelay.encode.dead_letter import DeadLetters
from pgrelay.encode.formats import plan_of, schemas_of, schemas_of_topic
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, RelationFacts
from pgrelay.encode.records import CREATE, DELETE, MESSAGE, UPDATE, Opening, Record, Segment
from pgrelay.encode.schema import schema_record
from pgrelay.encode.topics import Topics
from pgrelay.errors import PgrelayError, ProtocolError, RecordError, SetupError
from pgrelay.wire import pgoutput, tags
from pgrelay.wire.cursor import read_u32
from pgrelay.wire.replication import BODY, HEADER_SIZE, STREAMED_BODY, frame_lsn

_OPS: Final = {tags.INSERT: CREATE, tags.UPDATE: UPDATE, tags.DELETE: DELETE}


@dataclass(frozen=True, slots=True)
class FactsNeeded:
    relation: pgoutput.Relation
    ahead: tuple[pgoutput.Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Announcement:
    """`topic` is the table's; `record` is for the schema topic, `schemas` for a registry."""

    topic: str
    record: Record
    schemas: Schemas | None = None
    ahead: "tuple[Announcement, ...]" = ()


@dataclass(frozen=True, slots=True)
class TopicNeeded:
    topic: str
    schemas: Schemas | None = None


Need = FactsNeeded | Announcement | TopicNeeded


class Encoder:
    """One session's encoder: its relations, and the transaction on its way out."""

    def __init__(self, options: RecordOptions, topics: Topics) -> None:
        self.need: Need | None = None
        self._options = options
        self._topics = topics
        self._changes = Changes(options, topics)
        # What the ids of the schemas are for that were asked for last.
        self._opening = Opening()
        self._topics_met: set[str] = set()
        # None stands for a relation that the configuration leaves out.
        self._session: dict[int, Plan | None] = {}
        self._scoped: dict[int, Plan | None] | None = None
        self._unread: dict[int, bytes] = {}
        # Plans by the Relation message that made them: a streamed transaction sends its relations again.
        self._made: dict[bytes, Plan] = {}
        # Plans whose place others have taken, until their counts are taken too.
        self._replaced: list[Plan] = []
        self._announced = Announced()
        self._needed_by: bytes = b""
        # What the need at hand names ahead, and the Relation messages whose facts are known ahead.
        self._bodies_ahead: list[bytes] = []
        self._plans_ahead: list[Plan] = []
        self._known_ahead: set[bytes] = set()
        self._events: list[Event] = []
        self._next = 0
        self._body = BODY
        # Whether the transaction's changes are passed by, which were delivered before or are left out.
        self._passing = False
        self._passed = 0
        # How many changes it had that was left out, and where it ended.
        self.left_out: tuple[int, int] | None = None

    @property
    def pending(self) -> bool:
        """Events were fed that are not encoded yet."""
        return self._next < len(self._events)

    @property
    def position(self) -> tuple[int, int]:
        """Commit LSN of the transaction on its way out, and the `seq` of its next record."""
        return self._changes.envelope.commit_lsn, self._changes.envelope.seq

    def skip(self, lsn: int, cut_lsn: int | None, cut_seq: int | None) -> None:
        """Leave out what was delivered before: see `Envelope.skip`."""
        self._changes.envelope.skip(lsn, cut_lsn, cut_seq)

    def leave_out(self, lsn: int, message: bool = False) -> None:
        """Relay nothing of it (see `Envelope.leave_out`) nor behind it; then `left_out` tells of it."""
        self._changes.envelope.leave_out(lsn, message)

    @property
    def dead_letters(self) -> DeadLetters:
        return self._changes.dead_letters

    def take_counts(self) -> list[tuple[str, str, int]]:
        """Table, op and number of the records since the last call: no dead letters, nothing left out."""
        counts = [("message", MESSAGE, self._changes.messages)] if self._changes.messages else []
        self._changes.messages = 0
        for plan in [*self._made.values(), *self._replaced]:
            counts += plan.take_counts()
        # The session goes on with the one that it has where a scoped transaction has made another.
        self._replaced = [plan for plan in self._replaced if self._session.get(plan.relation.oid) is plan]
        return counts

    def feed(self, events: list[Event]) -> None:
        """Take more events; only once those before are all encoded."""
        assert not self.pending, "events are fed before the earlier ones are encoded"
        self._events = events if self.left_out is None else []
        self._next = 0

    def encode(self, now_us: int, to_end: bool = False) -> list[Segment | Reached]:
        """Encode what was fed, up to a `need`, or with `to_end` up to the next end of a transaction.

        `now_us` is since 1970.

        Raises ProtocolError, RecordError or SetupError, naming the LSN.
        """
        changes = self._changes
        changes.envelope.set_clock(now_us)
        done: list[Segment | Reached] = []
        if changes.segment is not None:
            changes.segment = Segment(None)
            done.append(changes.segment)
        events = self._events
        while self._next < len(events) and self.need is None:
            event = events[self._next]
            self._next += 1
            if isinstance(event, bytes):
                if not self._passing or event[HEADER_SIZE] == tags.RELATION:
                    self._frame(event)
                elif event[HEADER_SIZE] != tags.TYPE and event[HEADER_SIZE] != tags.ORIGIN:
                    self._passed += 1
            elif isinstance(event, TransactionBegin):
                if self._lacks_boundaries():
                    self._next -= 1
                    break
                segment = Segment(event)
                done.append(segment)
                changes.begin(segment)
                self._body = STREAMED_BODY if event.streamed else BODY
                self._scoped = {} if event.scoped else None
                self._passing = changes.envelope.all_skipped
                self._passed = 0
            elif isinstance(event, TransactionEnd):
                if changes.envelope.left_out:
                    self.left_out = self._passed, event.end_lsn
                    # What can't be relayed behind it would spoil the commit that covers it.
                    events = self._events = []
                self._passing = False
                changes.end(event.end_lsn)
                self._body = BODY
                self._scoped = None
                if to_end:
                    break
            else:
                done.append(event)
        return done

    def learn(self, facts: RelationFacts, ahead: Sequence[RelationFacts] = ()) -> None:
        """Answer FactsNeeded, and what it names ahead or nothing of that.

        Raises SetupError where the topic is another's, or a key would be hidden.
        """
        need = self.need
        assert isinstance(need, FactsNeeded), "no facts are needed"
        self.need = None
        self._known()[need.relation.oid] = self._make(self._needed_by, need.relation, facts)
        for body, relation, known in zip(self._bodies_ahead, need.ahead, ahead, strict=False):
            # What is wrong with it is told in its turn: rows of others come before.
            with suppress(SetupError):
                self._make(body, relation, known)
                self._known_ahead.add(body)

    def _make(self, body: bytes, relation: pgoutput.Relation, facts: RelationFacts) -> Plan:
        plan = self._made.get(body)
        if plan is None or plan.facts != facts:
            if plan is not None:
                self._replaced.append(plan)
            plan = plan_of(relation, facts, self._topics, self._options)
            self._made[body] = plan
        return plan

    def met(self, ids: SchemaIds | None = None, ahead: Sequence[SchemaIds | None] = ()) -> None:
        """Answer an Announcement, and what it names ahead or nothing of that; or a TopicNeeded.

        In Avro with the ids of the schemas.
        """
        need = self.need
        if isinstance(need, TopicNeeded):
            self._topics_met.add(need.topic)
        elif isinstance(need, Announcement):
            for plan, known in zip(self._plans_ahead, ahead, strict=False):
                self._announced.add(plan)
                _open(plan.opening, known)
        _open(self._opening, ids)
        self.need = None

    def _announce(self, plan: Plan) -> None:
        """Tell a plan's schema."""
        self._announced.add(plan)
        envelope = self._changes.envelope
        self._opening = plan.opening
        self._plans_ahead = []
        ahead = []
        for coming in self._ahead():
            other = self._made.get(coming.body)
            if other is not None and self._announced.is_new(other):
                self._plans_ahead.append(other)
                # The relation is new, so its schema may as well hold from the transaction's first record.
                ahead.append(self._announcement(other, coming.commit_lsn, 0))
        first = self._announcement(plan, envelope.commit_lsn, envelope.seq)
        self.need = replace(first, ahead=tuple(ahead))

    def _announcement(self, plan: Plan, lsn: int, seq: int) -> Announcement:
        record = schema_record(self._topics.schema, self._options.systemid, plan, lsn, seq)
        return Announcement(plan.topic, record, schemas_of(plan, self._options))

    def _ahead(self) -> Iterator[Ahead]:
        return relations_ahead(self._events, self._next, self._body, self._changes.envelope.commit_lsn)

    def _known(self) -> dict[int, Plan | None]:
        return self._session if self._scoped is None else self._scoped

    def _frame(self, frame: bytes) -> None:
        try:
            self._message(frame[HEADER_SIZE], frame)
        except IndexError:
            truncated = ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is truncated")
            raise truncated.at(frame_lsn(frame)) from None
        except RecordError as error:
            self._fail(error.at(frame_lsn(frame)), frame)
        except PgrelayError as refused:
            # A name of its own: compiled, a name has one type in a function, and `error` is a RecordError.
            raise refused.at(frame_lsn(frame)) from refused

    def _fail(self, error: RecordError, frame: bytes) -> None:
        """A change that can't be encoded: a dead letter, or the end."""
        op = _OPS.get(frame[HEADER_SIZE])
        plan = None if op is None else self._plan(read_u32(frame, self._body))
        if self._options.dead_letters is None or op is None or plan is None:
            error.commit_lsn = self._changes.envelope.commit_lsn
            raise error
        self._changes.set_aside(plan, frame, self._body, op, error)

    def _message(self, tag: int, frame: bytes) -> None:
        if tag == tags.INSERT or tag == tags.UPDATE or tag == tags.DELETE:
            oid = read_u32(frame, self._body)
            if self._must_wait(oid):
                self._next -= 1
                return
            plan = self._plan(oid)
            if plan is None:
                return
            if tag == tags.INSERT:
                self._changes.insert(plan, frame, self._body)
            elif tag == tags.UPDATE:
                self._changes.update(plan, frame, self._body)
            else:
                self._changes.delete(plan, frame, self._body)
        elif tag == tags.RELATION:
            self._take_relation(frame)
        else:
            self._rare(frame)

    def _plan(self, oid: int) -> Plan | None:
        known = self._known()
        if oid not in known:
            raise ProtocolError(f"a change of relation {oid}, which no Relation message described")
        return known[oid]

    def _must_wait(self, oid: int) -> bool:
        """Whether a change of this relation can't be encoded yet; if so, what it waits for is under way."""
        if self._scoped is None and oid in self._unread:
            self._relation(self._unread.pop(oid), BODY)
            return True
        plan = self._plan(oid)
        if plan is None or plan.announced:
            return False
        # Not at its Relation: with publish_via_partition_root those of partitions come too, and no rows.
        self._announce(plan)
        return True

    def _take_relation(self, frame: bytes) -> None:
        oid = read_u32(frame, self._body)
        if self._changes.segment is None:
            self._unread[oid] = frame
            return
        if self._scoped is None:
            self._unread.pop(oid, None)
        self._relation(frame, self._body)

    def _relation(self, frame: bytes, start: int) -> None:
        """Read a Relation, whose fields begin at `start`."""
        body = frame[start:]
        oid = read_u32(body, 0)
        plan = self._made.get(body)
        # What is the catalogue's to tell may change with the same Relation message.
        if plan is not None and (not plan.asks_again or body in self._known_ahead):
            self._known_ahead.discard(body)
            self._known()[oid] = plan
            return
        message = pgoutput.parse(frame, start == STREAMED_BODY, HEADER_SIZE)
        assert isinstance(message, pgoutput.Relation)
        if not self._options.selection.takes(str(message)):
            self._known()[oid] = None
            return
        self._needed_by = body
        self._bodies_ahead = []
        self.need = FactsNeeded(message, tuple(self._relations_ahead(body)))

    def _relations_ahead(self, body: bytes) -> Iterator[pgoutput.Relation]:
        for coming in self._ahead():
            if coming.body == body or coming.body in self._made:
                continue
            message = pgoutput.parse(coming.frame, coming.start == STREAMED_BODY, HEADER_SIZE)
            if isinstance(message, pgoutput.Relation) and self._options.selection.takes(str(message)):
                self._bodies_ahead.append(coming.body)
                yield message

    def _lacks_boundaries(self) -> bool:
        """The same of the transactions' topic, which is there, but in Avro has schemas to be told."""
        boundaries = self._changes.boundaries
        if boundaries is None or self._options.format == "json":
            return False
        return self._lacks(boundaries.topic, boundaries.opening)

    def _lacks(self, topic: str, opening: Opening) -> bool:
        """Whether a topic that is no table's must be asked for first; then that is the need."""
        if topic in self._topics_met:
            return False
        self._opening = opening
        self.need = TopicNeeded(topic, schemas_of_topic(topic, self._topics, self._options))
        return True

    def _rare(self, frame: bytes) -> None:
        """Truncate, logical message, origin and type: parsed in full, being few."""
        streamed = self._body == STREAMED_BODY and frame[HEADER_SIZE] != tags.ORIGIN
        message = pgoutput.parse(frame, streamed, HEADER_SIZE)
        match message:
            case pgoutput.Type():
                # Types are the catalogue's to tell; a message that is cut is refused all the same.
                pass
            case pgoutput.Origin():
                self._changes.envelope.set_origin(message.name)
            case pgoutput.Truncate() if any(self._must_wait(oid) for oid in message.relation_oids):
                self._next -= 1
            case pgoutput.Truncate():
                for oid in message.relation_oids:
                    plan = self._plan(oid)
                    if plan is not None:
                        self._changes.truncate(message, plan, frame)
            case pgoutput.Message():
                if self._lacks(self._topics.message, self._changes.envelope.opening):
                    self._next -= 1
                else:
                    self._changes.message(message, frame)
            case _:
                raise ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is no change")


def _open(opening: Opening, ids: SchemaIds | None) -> None:
    if ids is not None:
        opening.key = b"" if ids.key is None else header(ids.key)
        opening.value = header(ids.value)
