"""Which schema of each table consumers were told last."""

from pgrelay.encode.plan import Plan


class Announced:
    """The plans that were announced last, by relation and by name.

    By both, since a table may take another's name and give it back: consumers go by the last plan of a name,
    and a relation that changed supersedes its own earlier plan, whatever name that had.
    """

    def __init__(self) -> None:
        self._by_oid: dict[int, Plan] = {}
        self._by_name: dict[str, Plan] = {}

    def is_new(self, plan: Plan) -> bool:
        """Whether neither its relation nor its name was announced before."""
        return plan.relation.oid not in self._by_oid and plan.table not in self._by_name

    def add(self, plan: Plan) -> None:
        """Mark a plan as announced, and the last ones of the same relation and name as no longer so."""
        for previous in (self._by_oid.get(plan.relation.oid), self._by_name.get(plan.table)):
            if previous is not None:
                previous.announced = False
        plan.announced = True
        self._by_oid[plan.relation.oid] = plan
        self._by_name[plan.table] = plan
