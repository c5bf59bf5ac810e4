"""What the encoder needs from outside before it goes on, and which of it can be asked for ahead.

FactsNeeded    the first change under a Relation: facts that only the catalogue has
Announcement   a plan is about to be used for the first time, or another one has been used since: before the
               next row its topic must exist, and consumers must know its schema
TopicNeeded    the topic of the first logical message; in Avro also that of transactions

`provide_facts` answers the first, `confirm_topic` the others; in Avro with the ids under which a registry has
the schemas. The first two also name, in `ahead`, what will be needed soon; that may be answered along with
them, or in its turn.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pgrelay.encode.announced_plans import AnnouncedPlans
from pgrelay.encode.avro.body import header
from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.encode.formats import schemas_of, schemas_of_topic
from pgrelay.encode.lookahead import RelationAhead
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, RelationFacts
from pgrelay.encode.plans import Plans
from pgrelay.encode.records import Record, SchemaHeader
from pgrelay.encode.schema import schema_record
from pgrelay.encode.topics import Topics
from pgrelay.errors import SetupError
from pgrelay.wire import pgoutput


@dataclass(frozen=True, slots=True)
class FactsNeeded:
    """A relation, and the transaction that brought it; `body` is its message, without tag and xid."""

    relation: pgoutput.Relation
    xid: int | None
    body: bytes = b""
    ahead: "tuple[FactsNeeded, ...]" = ()


@dataclass(frozen=True, slots=True)
class Announcement:
    """`topic` is that of the plan; `record` is for the schema topic, `schemas` for a registry."""

    plan: Plan
    record: Record
    schemas: Schemas | None = None
    ahead: "tuple[Announcement, ...]" = ()

    @property
    def topic(self) -> str:
        return self.plan.topic


@dataclass(frozen=True, slots=True)
class TopicNeeded:
    """`schema_header` is filled with the ids of the schemas."""

    topic: str
    schemas: Schemas | None = None
    schema_header: SchemaHeader = field(default_factory=SchemaHeader, compare=False)


Need = FactsNeeded | Announcement | TopicNeeded


class Needs:
    """One session's needs; `need` is the current one. Plans keep their facts; a ready topic stays ready."""

    def __init__(self, options: RecordOptions, topics: Topics, plans: Plans) -> None:
        self.need: Need | None = None
        self._options = options
        self._topics = topics
        self._plans = plans
        self._ready_topics: set[str] = set()
        self._announced = AnnouncedPlans()

    def need_facts(self, body: bytes, xid: int | None, upcoming: Iterable[RelationAhead]) -> None:
        """Need the facts of the relation with the message `body`, and of those `upcoming` that lack them."""
        relation = pgoutput.parse_relation(body)
        self.need = FactsNeeded(relation, xid, body, tuple(self._facts_ahead(body, upcoming)))

    def _facts_ahead(self, body: bytes, upcoming: Iterable[RelationAhead]) -> Iterator[FactsNeeded]:
        for ahead in upcoming:
            if ahead.body == body or self._plans.find(ahead.body) is not None:
                continue
            message = pgoutput.parse_relation(ahead.body)
            if self._options.selection.is_relayed(str(message)):
                yield FactsNeeded(message, ahead.xid, ahead.body)

    def provide_facts(self, facts: RelationFacts, ahead: Sequence[RelationFacts]) -> Plan:
        """Answer FactsNeeded, as `Encoder.provide_facts` does; returns the relation's plan."""
        need = self.need
        assert isinstance(need, FactsNeeded), "no facts are needed"
        self.need = None
        plan = self._plans.plan_for(need.body, need.relation, facts)
        for other, known in zip(need.ahead, ahead, strict=False):
            # What is wrong with it is raised in its turn: rows of other tables come first.
            with suppress(SetupError):
                self._plans.plan_ahead(other.body, other.relation, known)
        return plan

    def need_announcement(self, plan: Plan, upcoming: Iterable[RelationAhead], lsn: int, seq: int) -> None:
        """Need a plan's schema announced, as of (`lsn`, `seq`); name those `upcoming` that are new too.

        Raises SetupError if its rows can't be relayed.
        """
        refused = plan.unsupported_binary(self._options)
        if refused is not None:
            raise refused
        self._announced.add(plan)
        ahead = []
        for other in upcoming:
            new = self._plans.find(other.body)
            if new is None or not self._announced.is_new(new):
                continue
            # A plan that must be refused is refused in its turn: rows of other tables come first.
            if new.unsupported_binary(self._options) is None:
                # The relation is new, so its schema may hold from the transaction's first record on.
                ahead.append(self._announcement(new, other.commit_lsn, 0))
        self.need = replace(self._announcement(plan, lsn, seq), ahead=tuple(ahead))

    def _announcement(self, plan: Plan, lsn: int, seq: int) -> Announcement:
        record = schema_record(self._topics.schema, self._options.systemid, plan, lsn, seq)
        return Announcement(plan, record, schemas_of(plan, self._options))

    def need_topic(self, topic: str, schema_header: SchemaHeader) -> bool:
        """Need a topic that belongs to no table, unless it is ready. Returns whether to wait for it."""
        if topic in self._ready_topics:
            return False
        self.need = TopicNeeded(topic, schemas_of_topic(topic, self._topics, self._options), schema_header)
        return True

    def confirm_topic(self, ids: SchemaIds | None, ahead: Sequence[SchemaIds | None]) -> None:
        """Answer an Announcement or a TopicNeeded, as `Encoder.confirm_topic` does."""
        need = self.need
        if isinstance(need, TopicNeeded):
            self._ready_topics.add(need.topic)
            _set_header(need.schema_header, ids)
        elif isinstance(need, Announcement):
            _set_header(need.plan.schema_header, ids)
            for other, known in zip(need.ahead, ahead, strict=False):
                self._announced.add(other.plan)
                _set_header(other.plan.schema_header, known)
        self.need = None


def _set_header(schema_header: SchemaHeader, ids: SchemaIds | None) -> None:
    if ids is not None:
        schema_header.key = b"" if ids.key is None else header(ids.key)
        schema_header.value = header(ids.value)
