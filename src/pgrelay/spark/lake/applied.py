"""What is applied of a topic, and the mark by which a commit tells it."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from pgrelay.spark.schemas.schema import Position

_START: Final[Position] = (0, 0)


@dataclass
class Applied:
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

    def add(self, other: "Applied") -> None:
        """Take in what else is applied of the same topic."""
        for partition, position in other.by_partition.items():
            self.advance(partition, position)
        if other.truncated is not None:
            self.truncate(other.truncated)

    def is_beyond(self, other: "Applied") -> bool:
        """Whether this is further than the other, in some partition or by a truncate."""
        if (self.truncated or _START) > (other.truncated or _START):
            return True
        return any(
            at > other.by_partition.get(partition, _START) for partition, at in self.by_partition.items()
        )

    def is_new(self, *, truncated: bool = True) -> str:
        """SQL: whether a change, given by its columns partition, commit_lsn and seq, is not applied yet.

        Without `truncated`, changes from before the last truncate count as applied, in every partition.
        """
        void = None if truncated else self.truncated
        if not self.by_partition:
            return "true"
        # Compiled plans refer to a map, but contain plain numbers: each batch would be compiled again.
        applied = ", ".join(
            f"{partition}, {_struct(max(position, void or position))}"
            for partition, position in self.by_partition.items()
        )
        last = f"try_element_at(map({applied}), partition)"
        if void is not None:
            last = f"coalesce({last}, {_struct(void)})"
        # A record that can't be read has no position, and must not count as applied.
        unread = "commit_lsn IS NULL OR seq IS NULL"
        return f"{last} IS NULL OR {unread} OR struct(commit_lsn, seq) > {last}"

    def mark(self, **more: Any) -> str:
        """All this as text, with what `more` there is to tell, which `take` ignores."""
        applied = [[partition, *at] for partition, at in self.by_partition.items()]
        return json.dumps({"topic": self.topic, "applied": applied, "truncated": self.truncated, **more})

    def take(self, mark: str | None) -> None:
        """Take in what a mark tells; nothing if it is another topic's, or the mark of somebody else."""
        told = parsed(mark)
        # Marks are a setting of the session: while another table's was set, this table's commits carried it.
        if told.get("topic") != self.topic:
            return
        for partition, lsn, seq in told["applied"]:
            self.advance(partition, (lsn, seq))
        if told.get("truncated"):
            lsn, seq = told["truncated"]
            self.truncate((lsn, seq))


def parsed(mark: str | None) -> dict[str, Any]:
    """What a mark tells, by name; empty if there is none, or it is the mark of somebody else's commit."""
    try:
        told = {} if mark is None else json.loads(mark)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _struct(position: Position) -> str:
    lsn, seq = position
    return f"struct({lsn}L AS commit_lsn, {seq}L AS seq)"
