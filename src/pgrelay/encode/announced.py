"""What consumers were told last of each table's schema."""

from pgrelay.encode.plan import Plan


class Announced:
    """The plans that were announced last, of each relation and of each name.

    By both, since a table may take another's name and give it back: the records of a name are what consumers
    know, and a relation that changed is told of though its name was another's since.
    """

    def __init__(self) -> None:
        self._by_oid: dict[int, Plan] = {}
        self._by_name: dict[str, Plan] = {}

    def is_new(self, plan: Plan) -> bool:
        """Neither its relation nor its name was announced before."""
        return plan.relation.oid not in self._by_oid and plan.table not in self._by_name

    def add(self, plan: Plan) -> None:
        """A plan is announced, and those of the same relation or name are no more."""
        for previous in (self._by_oid.get(plan.relation.oid), self._by_name.get(plan.table)):
            if previous is not None:
                previous.announced = False
        plan.announced = True
        self._by_oid[plan.relation.oid] = plan
        self._by_name[plan.table] = plan
