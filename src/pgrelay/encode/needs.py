"""What the encoder needs from outside before it goes on, and which of it can be asked for ahead.

FactsNeeded    the first change under a Relation: facts that only the catalogue has; answered by `learn`
Announcement   a plan is about to be used for the first time, or another one was since: its topic must exist,
               and its schema be known to consumers, before the first row; answered by `met`
TopicNeeded    the topic of the first logical message; in Avro also that of transactions; answered by `met`

In Avro, the answer to the last two includes the ids under which a registry has the schemas. The first two
also name, in `ahead`, what will be needed soon; that may be answered along with them, or in its turn.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pgrelay.encode.announced import Announced
from pgrelay.encode.avro.body import header
from pgrelay.encode.avro.schema import SchemaIds, Schemas
from pgrelay.encode.formats import schemas_of, schemas_of_topic
from pgrelay.encode.lookahead import RelationAhead
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.plan import Plan, RelationFacts
from pgrelay.encode.plans import Plans
from pgrelay.encode.records import Opening, Record
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
    """`opening` gets the ids of the schemas."""

    topic: str
    schemas: Schemas | None = None
    opening: Opening = field(default_factory=Opening, compare=False)


Need = FactsNeeded | Announcement | TopicNeeded


class Needs:
    """One session's needs; `need` is the current one. What was met is not needed again; plans keep facts."""

    def __init__(self, options: RecordOptions, topics: Topics, plans: Plans) -> None:
        self.need: Need | None = None
        self._options = options
        self._topics = topics
        self._plans = plans
        self._topics_met: set[str] = set()
        self._announced = Announced()

    def ask_facts(self, body: bytes, xid: int | None, coming: Iterable[RelationAhead]) -> None:
        """Need the facts of a relation, whose message is `body`, and of those of `coming` that lack them."""
        relation = pgoutput.parse_relation(body)
        self.need = FactsNeeded(relation, xid, body, tuple(self._unknown(body, coming)))

    def _unknown(self, body: bytes, coming: Iterable[RelationAhead]) -> Iterator[FactsNeeded]:
        for ahead in coming:
            if ahead.body == body or self._plans.made(ahead.body) is not None:
                continue
            message = pgoutput.parse_relation(ahead.body)
            if self._options.selection.takes(str(message)):
                yield FactsNeeded(message, ahead.xid, ahead.body)

    def learn(self, facts: RelationFacts, ahead: Sequence[RelationFacts]) -> Plan:
        """Answer FactsNeeded, as `Encoder.learn` does; returns the relation's plan."""
        need = self.need
        assert isinstance(need, FactsNeeded), "no facts are needed"
        self.need = None
        plan = self._plans.make(need.body, need.relation, facts)
        for other, known in zip(need.ahead, ahead, strict=False):
            # What is wrong with it is raised in its turn: rows of others come before.
            with suppress(SetupError):
                self._plans.make_ahead(other.body, other.relation, known)
        return plan

    def announce(self, plan: Plan, coming: Iterable[RelationAhead], lsn: int, seq: int) -> None:
        """Need a plan's schema announced, as of (`lsn`, `seq`), and name those of `coming` that are new too.

        Raises SetupError if its rows can't be relayed.
        """
        refused = plan.refused_values(self._options)
        if refused is not None:
            raise refused
        self._announced.add(plan)
        ahead = []
        for other in coming:
            new = self._plans.made(other.body)
            if new is None or not self._announced.is_new(new):
                continue
            # A plan that is refused is refused in its turn: rows of other tables come before.
            if new.refused_values(self._options) is None:
                # The relation is new, so its schema may hold from the transaction's first record on.
                ahead.append(self._announcement(new, other.commit_lsn, 0))
        self.need = replace(self._announcement(plan, lsn, seq), ahead=tuple(ahead))

    def _announcement(self, plan: Plan, lsn: int, seq: int) -> Announcement:
        record = schema_record(self._topics.schema, self._options.systemid, plan, lsn, seq)
        return Announcement(plan, record, schemas_of(plan, self._options))

    def lacks(self, topic: str, opening: Opening) -> bool:
        """Whether a topic that belongs to no table must be asked for first; then that is the need."""
        if topic in self._topics_met:
            return False
        self.need = TopicNeeded(topic, schemas_of_topic(topic, self._topics, self._options), opening)
        return True

    def met(self, ids: SchemaIds | None, ahead: Sequence[SchemaIds | None]) -> None:
        """Answer an Announcement or a TopicNeeded, as `Encoder.met` does."""
        need = self.need
        if isinstance(need, TopicNeeded):
            self._topics_met.add(need.topic)
            _open(need.opening, ids)
        elif isinstance(need, Announcement):
            _open(need.plan.opening, ids)
            for other, known in zip(need.ahead, ahead, strict=False):
                self._announced.add(other.plan)
                _open(other.plan.opening, known)
        self.need = None


def _open(opening: Opening, ids: SchemaIds | None) -> None:
    if ids is not None:
        opening.key = b"" if ids.key is None else header(ids.key)
        opening.value = header(ids.value)
