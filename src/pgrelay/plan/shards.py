"""Which tables go together, and into which shard. Pure, and independent of the order of its input.

A group is a connected component of the tables and their ties. The groups, largest first, each go into the
shard that is smallest so far (longest processing time first). So no shard is larger than the smallest shard
plus its own largest group, and no shard is empty if there are enough groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """Sorted table names, and the bytes of WAL that they make together."""

    tables: tuple[str, ...]
    volume: int


def group_tables(tables: Iterable[str], ties: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Group the tables: two tied tables are in one group. Ties to tables that are not given are ignored."""
    parent = {table: table for table in tables}

    def find(table: str) -> str:
        while parent[table] != table:
            parent[table] = parent[parent[table]]
            table = parent[table]
        return table

    for one, other in ties:
        if one in parent and other in parent:
            parent[find(one)] = find(other)
    groups: dict[str, list[str]] = {}
    for table in sorted(parent):
        groups.setdefault(find(table), []).append(table)
    return sorted(tuple(group) for group in groups.values())


def balance(groups: Sequence[Sequence[str]], volumes: Mapping[str, int], count: int) -> list[Shard]:
    """Put the groups, undivided, into `count` shards. Raises ValueError if there are fewer groups."""
    if len(groups) < count:
        raise ValueError(f"{len(groups)} groups can't fill {count} shards")
    by_size = sorted(
        (Shard(tuple(group), sum(volumes[table] for table in group)) for group in groups), key=_size
    )
    shards = [Shard((), 0)] * count
    for group in reversed(by_size):
        # An empty shard first: otherwise all groups without volume would go into the first shard.
        least = min(
            range(count), key=lambda n: (bool(shards[n].tables), shards[n].volume, len(shards[n].tables))
        )
        shard = shards[least]
        shards[least] = Shard(tuple(sorted(shard.tables + group.tables)), shard.volume + group.volume)
    return shards


def _size(shard: Shard) -> tuple[int, int, tuple[str, ...]]:
    return shard.volume, len(shard.tables), shard.tables
