"""The plans of one session's relations, by the Relation message that each was built for.

A streamed transaction sends its relations again, and a scoped transaction or a rollback brings an earlier one
back. So a plan is kept next to the one that replaced it, until it can no longer be used.
"""

from pgrelay.encode.formats import plan_of
from pgrelay.encode.options import RecordOptions
from pgrelay.encode.partitions import Partitions
from pgrelay.encode.plan import FULL, Plan, RelationFacts
from pgrelay.encode.topics import Topics
from pgrelay.wire.pgoutput import Relation


class Plans:
    """In the methods, `body` is a Relation message without its tag and xid."""

    def __init__(self, options: RecordOptions, topics: Topics) -> None:
        self._options = options
        self._topics = topics
        self._made: dict[bytes, Plan] = {}
        # The plan of each relation that the session used last, and the relation that had each name last.
        self._used: dict[int, Plan] = {}
        self._names: dict[tuple[str, str], int] = {}
        # Relation messages whose facts are known before their turn.
        self._ahead: set[bytes] = set()
        # Plans that others have replaced, until their counts are taken.
        self._replaced: list[Plan] = []
        self._partitions = Partitions()

    def made(self, body: bytes) -> Plan | None:
        """The last plan that was built for a Relation message; None if none was."""
        return self._made.get(body)

    def take(self, body: bytes) -> Plan | None:
        """The plan for a Relation whose turn has come; None if its facts must be asked for, perhaps again."""
        plan = self._made.get(body)
        # The catalogue's facts may change while the Relation message stays the same.
        if plan is None or (plan.asks_again and body not in self._ahead):
            return None
        self._ahead.discard(body)
        return plan

    def make(self, body: bytes, relation: Relation, facts: RelationFacts) -> Plan:
        """The plan for these facts; a new one if they have changed. Raises SetupError as `plan_of`."""
        plan = self._made.get(body)
        if plan is None or plan.facts != facts:
            if plan is not None:
                self._replaced.append(plan)
            plan = plan_of(relation, facts, self._topics, self._options)
            plan.publishes(self._partitions.of(relation.oid))
            self._made[body] = plan
        return plan

    def make_ahead(self, body: bytes, relation: Relation, facts: RelationFacts) -> None:
        """The same for a Relation whose turn is still to come; these facts will be used then."""
        self.make(body, relation, facts)
        self._ahead.add(body)

    def use(self, plan: Plan) -> int | None:
        """Note that the session uses a plan. Of its relation, keep only this one and the one before it.

        A rollback may bring that back. Any other would stay for as long as the session lasts. Returns the OID
        of a relation whose plans are forgotten, as it has lost its name to this one.
        """
        oid = plan.relation.oid
        before = self._used.get(oid)
        self._used[oid] = plan
        if before is not None and before is not plan:
            kept = (before, plan)
            for body in self._bodies(oid):
                if self._made[body] not in kept:
                    self._drop(body)
        return self._take_name(plan)

    def _take_name(self, plan: Plan) -> int | None:
        """Forget the plans of another relation that has had this one's name; returns its OID.

        It was dropped or renamed. A job that creates its table anew each time would leave a plan each time.
        """
        oid = self._names.get(plan.qualified, plan.relation.oid)
        self._names[plan.qualified] = plan.relation.oid
        other = self._used.get(oid)
        if other is None or oid == plan.relation.oid or other.qualified != plan.qualified:
            return None
        for body in self._bodies(oid):
            self._drop(body)
        del self._used[oid]
        return oid

    def _bodies(self, oid: int) -> list[bytes]:
        return [body for body, made in self._made.items() if made.relation.oid == oid]

    def _drop(self, body: bytes) -> None:
        self._ahead.discard(body)
        self._replaced.append(self._made.pop(body))

    def partition(self, root_oid: int, relation: Relation) -> None:
        """Take in a partition of a root that is FULL or has no key, as the stream describes it."""
        if self._partitions.describe(root_oid, relation, relation.replica_identity == FULL):
            for plan in [*self._used.values(), *self._made.values()]:
                if plan.relation.oid == root_oid:
                    plan.publishes(self._partitions.of(root_oid))

    def take_counts(self) -> list[tuple[str, str, int]]:
        """Table, op and number of the records of all plans since the last call.

        A replaced plan is then forgotten, unless the session still uses it, for example after a scoped
        transaction built another.
        """
        counts: list[tuple[str, str, int]] = []
        for plan in [*self._made.values(), *self._replaced]:
            counts += plan.take_counts()
        self._replaced = [plan for plan in self._replaced if self._used.get(plan.relation.oid) is plan]
        return counts
