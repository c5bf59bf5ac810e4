"""The relations that the stream has described to the session, or within one scoped transaction."""

from pgrelay.encode.plan import Plan


class Relations:
    """By OID: the last Relation message, without its tag and xid, and the plan once a change needed it.

    Many get no plan: a PREPARE brings them and is never committed, or they are partitions, whose rows come as
    their root's, or the table was dropped.
    """

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        # None stands for a relation that the configuration leaves out.
        self.plans: dict[int, Plan | None] = {}

    def describe(self, oid: int, body: bytes) -> None:
        self.bodies[oid] = body
        self.plans.pop(oid, None)

    def unplanned_body(self, oid: int) -> bytes | None:
        """The relation's last message if it has no plan yet; None if it has one, or there is no message."""
        return None if oid in self.plans else self.bodies.get(oid)
