"""Turns events in commit order into segments of Kafka records.

Theory of operation. The encoder keeps the session's relations as plans, and encodes each change by the plan
of its relation. If it needs something that it can only get from outside, it stops and says so in `need`
(needs.py). Once that is answered, by `provide_facts` or `confirm_topic`, `encode` resumes where it stopped.

So each row is encoded by the Relation that preceded it. A scoped transaction (it was prepared, perhaps long
ago) brings its own relations and leaves the session's alone. A Relation gets a plan once a change needs it,
not when it comes, and loses it if another table takes its name: then it was most likely dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd, Watermark
from pgrelay.encode.avro.schema import SchemaIds
from pgrelay.encode.changes import Changes, parse_frame
from pgrelay.encode.dead_letter import DeadLetters
from pgrelay.encode.envelope import Envelope
from pgrelay.encode.formats import envelope_of
from pgrelay.encode.hidden import HiddenColumns
from pgrelay.encode.lookahead import RelationAhead, relations_ahead
from pgrelay.encode.needs import Need, Needs
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import FULL, Plan, RelationFacts
from pgrelay.encode.plans import Plans
from pgrelay.encode.records import CREATE, DELETE, UPDATE, Segment
from pgrelay.encode.relations import Relations
from pgrelay.encode.skips import Skips
from pgrelay.encode.topics import Topics
from pgrelay.errors import PgrelayError, ProtocolError, RecordError
from pgrelay.wire import pgoutput, tags
from pgrelay.wire.cursor import read_u32
from pgrelay.wire.replication import BODY_AT, HEADER_SIZE, STREAMED_BODY_AT, frame_lsn

_OPS: Final = {tags.INSERT: CREATE, tags.UPDATE: UPDATE, tags.DELETE: DELETE}


class Encoder:
    """One session's encoder: its relations, and the current transaction."""

    def __init__(self, options: RecordOptions, topics: Topics, hidden: HiddenColumns | None = None) -> None:
        """`hidden` is what earlier sessions of the process knew."""
        self._hidden = HiddenColumns() if hidden is None else hidden
        self._plans = Plans(options, topics)
        self._needs = Needs(options, topics, self._plans)
        self._options = options
        self._topics = topics
        self._envelope: Envelope = envelope_of(options)
        self._changes = Changes(options, topics, self._envelope)
        self._skips = Skips()
        self._session = Relations()
        # The session's, or those of a scoped transaction.
        self._relations = self._session
        # The last event fed so far, if it was a Relation.
        self._last_relation: pgoutput.Relation | None = None
        self._events: list[Event] = []
        self._next = 0
        self._body_at = BODY_AT
        # The plans so far of a Truncate that waits for those of its other relations.
        self._truncate_plans: list[Plan | None] = []
        # What `skip_transaction` asked for, once it has come: how many changes it had, and its end LSN.
        self.skipped_transaction: tuple[int, int] | None = None
        # What the next call of `encode` raises; whole transactions before it were returned first.
        self._deferred_error: PgrelayError | None = None

    @property
    def need(self) -> Need | None:
        """What `encode` waits for."""
        return self._needs.need

    @property
    def pending(self) -> bool:
        """Events were fed that are not encoded yet."""
        return self._next < len(self._events) or self._deferred_error is not None

    @property
    def position(self) -> tuple[int, int]:
        """The commit LSN of the current transaction, and the `seq` of its next record."""
        return self._envelope.commit_lsn, self._envelope.seq

    @property
    def session_relations(self) -> Mapping[int, bytes]:
        """The Relation messages in force outside of scoped transactions: by OID, without tags and xids."""
        return self._session.bodies

    def skip_delivered(self, lsn: int, cut_lsn: int | None, cut_seq: int | None) -> None:
        """Skip what was delivered before, as `Skips.skip_delivered` does."""
        self._skips.skip_delivered(lsn, cut_lsn, cut_seq)

    def skip_transaction(self, lsn: int, message: bool = False) -> None:
        """Skip the transaction, as `Skips.skip_transaction` does, and everything after it.

        Once it has come, `skipped_transaction` is set.
        """
        self._skips.skip_transaction(lsn, message)

    @property
    def dead_letters(self) -> DeadLetters:
        return self._changes.dead_letters

    def take_counts(self) -> list[tuple[str, str, int]]:
        """Table, op and number of the records since the last call, without dead letters and skipped ones."""
        return self._changes.messages.take_counts() + self._plans.take_counts()

    def feed(self, events: list[Event]) -> None:
        """Take more events; the earlier ones must all be encoded."""
        assert not self.pending, "events are fed before the earlier ones are encoded"
        self._events = events if self.skipped_transaction is None else []
        self._next = 0
        if self._last_relation is not None and self._events:
            self._note_partition(self._last_relation, self._events[0])
            self._last_relation = None

    def encode(self, now_us: int, to_end: bool = False) -> list[Segment | Watermark]:
        """Encode what was fed, up to a `need`, or with `to_end` up to the next end of a transaction.

        `now_us` is microseconds since 1970.

        Raises ProtocolError, RecordError or SetupError, with the LSN. If something whole comes before the
        error, that is returned first, and the next call raises.
        """
        if self._deferred_error is not None:
            raise self._deferred_error
        self._envelope.set_clock(now_us)
        done: list[Segment | Watermark] = []
        try:
            self._encode_into(done, to_end)
        except PgrelayError as error:
            if done and isinstance(done[-1], Segment) and done[-1].end_lsn is None:
                done.pop()
            if not done:
                raise
            self._deferred_error = error
        return done

    def _encode_into(self, done: list[Segment | Watermark], to_end: bool) -> None:
        changes, skips = self._changes, self._skips
        segment = changes.continue_transaction()
        if segment is not None:
            done.append(segment)
        events, needs = self._events, self._needs
        while self._next < len(events) and needs.need is None:
            event = events[self._next]
            self._next += 1
            if isinstance(event, bytes):
                if not skips.whole_transaction or event[HEADER_SIZE] == tags.RELATION:
                    self._frame(event)
                elif event[HEADER_SIZE] != tags.TYPE and event[HEADER_SIZE] != tags.ORIGIN:
                    skips.changes += 1
            elif isinstance(event, TransactionBegin):
                if self._needs_transaction_topic():
                    self._next -= 1
                    break
                done.append(changes.begin(event, skips.begin(event)))
                self._body_at = STREAMED_BODY_AT if event.streamed else BODY_AT
                self._relations = Relations() if event.scoped else self._session
            elif isinstance(event, TransactionEnd):
                if skips.requested:
                    self.skipped_transaction = skips.changes, event.end_lsn
                    # An error after it would prevent the commit that covers it.
                    events = self._events = []
                changes.end(event.end_lsn)
                skips.end()
                self._body_at = BODY_AT
                self._relations = self._session
                if to_end:
                    break
            else:
                done.append(event)

    def provide_facts(self, facts: RelationFacts, ahead: Sequence[RelationFacts] = ()) -> None:
        """Answer FactsNeeded; `ahead` has the facts of what it names ahead, or is empty.

        Raises SetupError if the topic belongs to another table, if a key would be hidden, or if a rename
        would show a hidden column.
        """
        plan = self._needs.provide_facts(facts, ahead)
        self._use_plan(plan)

    def confirm_topic(self, ids: SchemaIds | None = None, ahead: Sequence[SchemaIds | None] = ()) -> None:
        """Answer an Announcement or a TopicNeeded; in Avro, with the ids of its schemas.

        `ahead` has the ids of what an Announcement names ahead, or is empty.
        """
        self._needs.confirm_topic(ids, ahead)

    def _relations_ahead(self) -> Iterator[RelationAhead]:
        """The relations that will be needed soon, from the deferred change on."""
        lsn, xid = self._envelope.commit_lsn, self._envelope.xid
        return relations_ahead(self._events, self._next, self._body_at, lsn, xid, self._relations)

    def _use_plan(self, plan: Plan) -> None:
        """Use this plan for the change that was deferred for lack of it, and for those that follow.

        Raises SetupError if a rename would show a hidden column.
        """
        change = self._events[self._next]
        assert isinstance(change, bytes)
        self._hidden.check(plan, frame_lsn(change))
        self._relations.plans[plan.relation.oid] = plan
        if self._relations is self._session:
            unnamed = self._plans.use(plan)
            if unnamed is not None:
                # Should it have a change after all, its message is read again.
                self._session.plans.pop(unnamed, None)

    def _frame(self, frame: bytes) -> None:
        try:
            try:
                self._message(frame[HEADER_SIZE], frame)
            except RecordError as error:
                self._set_aside(error.with_lsn(frame_lsn(frame)), frame)
        except IndexError:
            truncated = ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is truncated")
            raise truncated.with_lsn(frame_lsn(frame)) from None
        except RecordError:
            raise  # it has its LSN
        except PgrelayError as refused:
            # Not called `error`: compiled, a name has one type in a function, and `error` is a RecordError.
            raise refused.with_lsn(frame_lsn(frame)) from refused

    def _set_aside(self, error: RecordError, frame: bytes) -> None:
        """Make a dead letter of a change that can't be encoded, or raise the error."""
        op = _OPS.get(frame[HEADER_SIZE])
        plan = None if op is None else self._relations.plans.get(read_u32(frame, self._body_at))
        if self._options.dead_letters is None or op is None or plan is None:
            error.commit_lsn = self._envelope.commit_lsn
            raise error
        self._changes.set_aside(plan, frame, self._body_at, op, error)

    def _message(self, tag: int, frame: bytes) -> None:
        if tag == tags.INSERT or tag == tags.UPDATE or tag == tags.DELETE:
            oid = read_u32(frame, self._body_at)
            plan = self._relations.plans.get(oid)
            if (plan is None or not plan.announced) and self._defer(oid):
                return
            if plan is None:
                return
            if tag == tags.INSERT:
                self._changes.insert(plan, frame, self._body_at)
            elif tag == tags.UPDATE:
                self._changes.update(plan, frame, self._body_at)
            else:
                self._changes.delete(plan, frame, self._body_at)
        elif tag == tags.RELATION:
            self._take_relation(frame)
        else:
            self._other_message(frame)

    def _defer(self, oid: int) -> bool:
        """Defer a change of this relation if it can't be encoded yet; returns whether it was deferred.

        Then it is the next event again, and `need` says what it lacks; or that is None, and a plan that was
        built before is in use now.
        """
        relations, envelope = self._relations, self._envelope
        if oid in relations.plans:
            plan = relations.plans[oid]
            if plan is None or plan.announced:
                return False
            self._next -= 1
            self._needs.need_announcement(plan, self._relations_ahead(), envelope.commit_lsn, envelope.seq)
            return True
        if oid not in relations.bodies:
            raise ProtocolError(f"a change of relation {oid}, which no Relation message described")
        self._next -= 1
        body = relations.bodies[oid]
        plan = self._plans.reuse(body)
        if plan is not None:
            self._use_plan(plan)
        else:
            self._needs.need_facts(body, envelope.xid, self._relations_ahead())
        return True

    def _take_relation(self, frame: bytes) -> None:
        body = frame[self._body_at :]
        relation = pgoutput.parse_relation(body)
        self._relations.describe(relation.oid, body)
        if not self._options.selection.is_relayed(str(relation)):
            self._relations.plans[relation.oid] = None
        if self._next == len(self._events):
            self._last_relation = relation
        else:
            self._note_partition(relation, self._events[self._next])

    def _note_partition(self, relation: pgoutput.Relation, following: Event) -> None:
        """Note a partition of a root whose old rows should be whole, as it is FULL or has no key.

        The row after its Relation is of another (partitions.py).
        """
        if not isinstance(following, bytes) or len(following) < self._body_at + 4:
            return
        oid = read_u32(following, self._body_at)
        if following[HEADER_SIZE] not in tags.ROWS or oid == relation.oid:
            return
        body = self._relations.bodies.get(oid)
        if body is None:
            return
        root = pgoutput.parse_relation(body)
        if root.replica_identity == FULL or not any(column.key for column in root.columns):
            self._plans.note_partition(oid, relation)

    def _needs_transaction_topic(self) -> bool:
        """Whether to wait for the transaction topic first: in Avro, its schemas must be registered."""
        boundaries = self._changes.boundaries
        if boundaries is None or self._options.format == "json":
            return False
        return self._needs.need_topic(boundaries.topic, boundaries.schema_header)

    def _other_message(self, frame: bytes) -> None:
        """Truncate, logical message, origin and type: parsed in full, because they are few."""
        message = parse_frame(frame, self._body_at)
        match message:
            case pgoutput.Type():
                # Types are taken from the catalogue; a truncated message is refused all the same.
                pass
            case pgoutput.Origin():
                self._envelope.set_origin(message.name)
            case pgoutput.Truncate():
                self._truncate(message, frame)
            case pgoutput.Message():
                if self._needs.need_topic(self._topics.message, self._changes.messages.schema_header):
                    self._next -= 1
                else:
                    self._changes.message(message, frame)
            case _:
                raise ProtocolError(f"message {chr(frame[HEADER_SIZE])!r} is not a change")

    def _truncate(self, message: pgoutput.Truncate, frame: bytes) -> None:
        """Make the records of a Truncate once each of its relations has a plan."""
        plans = self._truncate_plans
        while len(plans) < len(message.relation_oids):
            oid = message.relation_oids[len(plans)]
            if self._defer(oid):
                return
            # Kept aside: a relation that the server describes by the same stale name takes its place.
            plans.append(self._relations.plans[oid])
        self._truncate_plans = []
        for plan in plans:
            if plan is not None:
                self._changes.truncate(message, plan, frame)
