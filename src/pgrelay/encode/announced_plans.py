"""Which schema of each table was last announced to consumers."""

from pgrelay.encode.plan import Plan


class AnnouncedPlans:
    """The last announced plans, by relation and by name.

    By both, since a table may take another's name and give it back. Consumers use the last plan of a name; a
    relation that changed replaces its own earlier plan, whatever its name was.
    """

    def __init__(self) -> None:
        # None once another table's plan has replaced it: that is all that is kept of a dropped table.
        self._by_oid: dict[int, Plan | None] = {}
        self._by_name: dict[tuple[str, str], Plan] = {}

    def is_new(self, plan: Plan) -> bool:
        """Whether neither the plan's relation nor its name was announced before."""
        return plan.relation.oid not in self._by_oid and plan.qualified_name not in self._by_name

    def add(self, plan: Plan) -> None:
        """Mark a plan as announced, and the previous plans of its relation and of its name as not."""
        for previous in (self._by_oid.get(plan.relation.oid), self._by_name.get(plan.qualified_name)):
            if previous is not None:
                previous.announced = False
                if self._by_oid.get(previous.relation.oid) is previous:
                    self._by_oid[previous.relation.oid] = None
        plan.announced = True
        self._by_oid[plan.relation.oid] = plan
        self._by_name[plan.qualified_name] = plan
