"""How far a topic is applied, and the mark by which a commit says so."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from pgrelay.spark.schemas.schema import Position

_START: Final[Position] = (0, 0)


@dataclass
class AppliedPositions:
    """The last applied position of each partition of a topic, and that of the last truncate.

    Other partitions may not be as far as the truncate.
    """

    topic: str
    by_partition: dict[int, Position] = field(default_factory=dict)
    truncated: Position | None = None

    @property
    def highest_lsn(self) -> int:
        """The highest commit LSN of all partitions; 0 if nothing is applied."""
        return max((lsn for lsn, _ in self.by_partition.values()), default=0)

    def advance(self, partition: int, position: Position) -> None:
        self.by_partition[partition] = max(position, self.by_partition.get(partition, position))

    def truncate(self, position: Position) -> None:
        self.truncated = max(position, self.truncated or position)

    def add(self, other: "AppliedPositions") -> None:
        """Add what else is applied of the same topic."""
        for partition, position in other.by_partition.items():
            self.advance(partition, position)
        if other.truncated is not None:
            self.truncate(other.truncated)

    def is_beyond(self, other: "AppliedPositions") -> bool:
        """Whether this is further than the other, in some partition or by a truncate."""
        if (self.truncated or _START) > (other.truncated or _START):
            return True
        return any(
            at > other.by_partition.get(partition, _START) for partition, at in self.by_partition.items()
        )

    def is_new(self, *, include_truncated: bool = True) -> str:
        """SQL: whether a change, given by its columns partition, commit_lsn and seq, is not applied yet.

        Without `include_truncated`, changes from before the last truncate count as applied, in every
        partition.
        """
        floor = None if include_truncated else self.truncated
        if not self.by_partition:
            return "true"
        # A compiled plan only refers to a map; it would contain plain numbers, and each batch be compiled
        # anew.
        applied = ", ".join(
            f"{partition}, {_struct(max(position, floor or position))}"
            for partition, position in self.by_partition.items()
        )
        last = f"try_element_at(map({applied}), partition)"
        if floor is not None:
            last = f"coalesce({last}, {_struct(floor)})"
        # A record that can't be read has no position, and must not count as applied.
        unread = "commit_lsn IS NULL OR seq IS NULL"
        return f"{last} IS NULL OR {unread} OR struct(commit_lsn, seq) > {last}"

    def mark(self, **more: Any) -> str:
        """All this as text, with `more` fields, which `add_mark` ignores."""
        applied = [[partition, *at] for partition, at in self.by_partition.items()]
        return json.dumps({"topic": self.topic, "applied": applied, "truncated": self.truncated, **more})

    def add_mark(self, mark: str | None) -> None:
        """Add what a mark says; nothing if it is another topic's, or somebody else's."""
        fields = parse_mark(mark)
        # The mark is a setting of the session: while another table's is set, this one's commits carry it too.
        if fields.get("topic") != self.topic:
            return
        for partition, lsn, seq in fields["applied"]:
            self.advance(partition, (lsn, seq))
        if fields.get("truncated"):
            lsn, seq = fields["truncated"]
            self.truncate((lsn, seq))


def parse_mark(mark: str | None) -> dict[str, Any]:
    """The fields of a mark, by name; empty if there is none, or it is of somebody else's commit."""
    try:
        fields = {} if mark is None else json.loads(mark)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _struct(position: Position) -> str:
    lsn, seq = position
    return f"struct({lsn}L AS commit_lsn, {seq}L AS seq)"
