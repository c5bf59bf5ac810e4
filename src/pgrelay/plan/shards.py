"""Which tables go together, and into which shard: pure, and the same for the same input in any order.

Tables that hang together are a group (the connected components of their ties). Groups go, the largest first,
each into the shard that has least so far: longest processing time first. No shard then has more than the
smallest one and its own largest group together, and none is empty where there are groups enough.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """Table names in their order, and the bytes of WAL that they make together."""

    tables: tuple[str, ...]
    volume: int


def related(tables: Iterable[str], ties: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The tables in groups: two that are tied are in one. Ties to tables not given count for nothing."""
    leader = {table: table for table in tables}

    def find(table: str) -> str:
        while leader[table] != table:
            leader[table] = leader[leader[table]]
            table = leader[table]
        return table

    for one, other in ties:
        if one in leader and other in leader:
            leader[find(one)] = find(other)
    groups: dict[str, list[str]] = {}
    for table in sorted(leader):
        groups.setdefault(find(table), []).append(table)
    return sorted(tuple(group) for group in groups.values())


def balanced(groups: Sequence[Sequence[str]], volumes: Mapping[str, int], count: int) -> list[Shard]:
    """`count` shards, no group divided. Raises ValueError where there are fewer groups than shards."""
    if len(groups) < count:
        raise ValueError(f"{len(groups)} groups can't fill {count} shards")
    weighed = sorted(
        (Shard(tuple(group), sum(volumes[table] for table in group)) for group in groups), key=_size
    )
    shards = [Shard((), 0)] * count
    for group in reversed(weighed):
        # An empty one first: of groups without volume each would otherwise find the first shard the least.
        least = min(
            range(count), key=lambda n: (bool(shards[n].tables), shards[n].volume, len(shards[n].tables))
        )
        shard = shards[least]
        shards[least] = Shard(tuple(sorted(shard.tables + group.tables)), shard.volume + group.volume)
    return shards


def _size(shard: Shard) -> tuple[int, int, tuple[str, ...]]:
    return shard.volume, len(shard.tables), shard.tables
