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
        self._by_body: dict[bytes, Plan] = {}
        # By relation, the plan that the session last used; by name, the relation that last had it.
        self._used: dict[int, Plan] = {}
        self._names: dict[tuple[str, str], int] = {}
        # Relation messages whose facts came before their turn.
        self._ahead: set[bytes] = set()
        # Plans that others have replaced, until their counts are taken.
        self._replaced: list[Plan] = []
        self._partitions = Partitions()

    def find(self, body: bytes) -> Plan | None:
        """The last plan that was built for a Relation message; None if none was."""
        return self._by_body.get(body)

    def reuse(self, body: bytes) -> Plan | None:
        """The plan for a Relation whose turn has come; None if facts must be asked for, perhaps once more."""
        plan = self._by_body.get(body)
        # The catalogue's facts may change while the Relation message stays the same.
        if plan is None or (plan.facts_may_change and body not in self._ahead):
            return None
        self._ahead.discard(body)
        return plan

    def plan_for(self, body: bytes, relation: Relation, facts: RelationFacts) -> Plan:
        """The plan for these facts; a new one if they have changed. Raises SetupError as `plan_of`."""
        plan = self._by_body.get(body)
        if plan is None or plan.facts != facts:
            if plan is not None:
                self._replaced.append(plan)
            plan = plan_of(relation, facts, self._topics, self._options)
            plan.set_partitions(self._partitions.of(relation.oid))
            self._by_body[body] = plan
        return plan

    def plan_ahead(self, body: bytes, relation: Relation, facts: RelationFacts) -> None:
        """The same for a Relation whose turn is still to come; these facts will be used then."""
        self.plan_for(body, relation, facts)
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
                if self._by_body[body] not in kept:
                    self._drop(body)
        return self._take_name(plan)

    def _take_name(self, plan: Plan) -> int | None:
        """Forget the plans of another relation that had this one's name; returns its OID.

        It was dropped or renamed. Otherwise a job that recreates its table would leave a plan each time.
        """
        oid = self._names.get(plan.qualified_name, plan.relation.oid)
        self._names[plan.qualified_name] = plan.relation.oid
        other = self._used.get(oid)
        if other is None or oid == plan.relation.oid or other.qualified_name != plan.qualified_name:
            return None
        for body in self._bodies(oid):
            self._drop(body)
        del self._used[oid]
        return oid

    def _bodies(self, oid: int) -> list[bytes]:
        return [body for body, plan in self._by_body.items() if plan.relation.oid == oid]

    def _drop(self, body: bytes) -> None:
        self._ahead.discard(body)
        self._replaced.append(self._by_body.pop(body))

    def note_partition(self, root_oid: int, relation: Relation) -> None:
        """Take in a partition of a root that is FULL or has no key, as the stream describes it."""
        if self._partitions.describe(root_oid, relation, relation.replica_identity == FULL):
            for plan in [*self._used.values(), *self._by_body.values()]:
                if plan.relation.oid == root_oid:
                    plan.set_partitions(self._partitions.of(root_oid))

    def take_counts(self) -> list[tuple[str, str, int]]:
        """Table, op and number of the records of all plans since the last call.

        A replaced plan is then forgotten, unless the session still uses it, for example after a scoped
        transaction built another.
        """
        counts: list[tuple[str, str, int]] = []
        for plan in [*self._by_body.values(), *self._replaced]:
            counts += plan.take_counts()
        self._replaced = [plan for plan in self._replaced if self._used.get(plan.relation.oid) is plan]
        return counts
