"""The plans of one session's relations, by the Relation message that each was built for.

A streamed transaction sends its relations again, and a scoped transaction or a rollback brings an earlier one
back. So a plan is kept next to the one that replaced it, until it can no longer be used.
"""

from collections.abc import Mapping

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

    def supersede(self, before: Plan, plan: Plan) -> None:
        """Of a relation, keep only the session's plan and the one before, which a rollback may bring back.

        Otherwise each ALTER TABLE would leave one for as long as the session lasts.
        """
        kept, oid = (before, plan), plan.relation.oid
        gone = [body for body, made in self._made.items() if made.relation.oid == oid and made not in kept]
        for body in gone:
            self._drop(body)

    def put_aside(self, plan: Plan) -> bytes:
        """Forget the plans of a relation, of which `plan` is in use; returns its Relation message."""
        oid, relation = plan.relation.oid, plan.relation
        gone = [body for body, made in self._made.items() if made.relation.oid == oid]
        # Its facts may have changed since `plan` was made, but its message is that of a plan that is kept.
        in_use = next(body for body in gone if self._made[body].relation == relation)
        for body in gone:
            self._drop(body)
        return in_use

    def _drop(self, body: bytes) -> None:
        self._ahead.discard(body)
        self._replaced.append(self._made.pop(body))

    def partition(self, root_oid: int, in_use: Plan | None, relation: Relation) -> None:
        """Take in a partition of a root that is FULL, as the stream describes it.

        `in_use` is the root's plan, if it has one.
        """
        if self._partitions.describe(root_oid, relation, relation.replica_identity == FULL):
            used = [] if in_use is None else [in_use]
            for plan in [*used, *self._made.values()]:
                if plan.relation.oid == root_oid:
                    plan.publishes(self._partitions.of(root_oid))

    def take_counts(self, session: Mapping[int, Plan | None]) -> list[tuple[str, str, int]]:
        """Table, op and number of the records of all plans since the last call.

        A replaced plan is then forgotten, unless the session still uses it, for example after a scoped
        transaction built another.
        """
        counts: list[tuple[str, str, int]] = []
        for plan in [*self._made.values(), *self._replaced]:
            counts += plan.take_counts()
        self._replaced = [plan for plan in self._replaced if session.get(plan.relation.oid) is plan]
        return counts
