"""Partitions that are published as their root, which is FULL, though their own replica identity is not.

The same for a root without a key: if it becomes FULL, the server does not describe it again, but calls old
rows whole from then on.

Theory of operation. With publish_via_partition_root the server describes a row as its root's, and calls an
old row whole if the root is FULL. But what an old row holds depends on the partition: if that is not FULL,
the columns of its identity, and null for every other. The row does not say which partition it is from. But
before the first row of a partition the server describes both, first the root and then the partition, as they
were when the row was written. So if a Relation is followed at once by a row of another relation, it describes
a partition of that relation.

Source: PostgreSQL, pgoutput.c, maybe_send_schema and send_relation_and_attrs.
"""

from pgrelay.errors import RecordError
from pgrelay.wire.pgoutput import Relation
from pgrelay.wire.tuples import NULL, TupleData


class Partition:
    """A partition that is not FULL. `unsent`: columns that are null in its old rows, whatever they were."""

    def __init__(self, relation: Relation) -> None:
        self.name = str(relation)
        self.unsent: frozenset[str] = frozenset(column.name for column in relation.columns if not column.key)
        # If not, Postgres refuses to update or delete its rows.
        self.identified: bool = any(column.key for column in relation.columns)


class Partitions:
    """The partitions of each root, by OID, as one session's stream described them last."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, Partition]] = {}

    def describe(self, root_oid: int, relation: Relation, full: bool) -> bool:
        """Note whether a partition of such a root is `full` now; returns whether that may be a change."""
        non_full_partition = self._of.setdefault(root_oid, {})
        partition = Partition(relation)
        if full or not partition.identified or not partition.unsent:
            return non_full_partition.pop(relation.oid, None) is not None
        non_full_partition[relation.oid] = partition
        return True

    def of(self, root_oid: int) -> list[Partition]:
        return list(self._of.get(root_oid, {}).values())


def refuse_unsent(table: str, names: list[str], row: TupleData, partitions: list[Partition]) -> None:
    """Raises RecordError for a row that is null wherever a partition's old rows are: it may be one of them.

    `names` are the root's columns, in the order of `row`; a value in an unsent column shows that it is not.
    """
    nulls = {name for name, kind in zip(names, row.kinds, strict=False) if kind == NULL}
    for partition in partitions:
        if partition.unsent <= nulls:
            raise RecordError(
                f"{table}: an old row has only the columns that identify it in partition {partition.name}, "
                "which was not REPLICA IDENTITY FULL like the root at the time, so its nulls may have been "
                "values; pgrelay skip the transaction, then copy the rows that it changed",
                table,
            )
