"""Every table is in exactly one shard, related ones together, and a greedy split keeps shards even."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.plan.shards import balance, group_tables

NAMES = st.text("abcdefgh", min_size=1, max_size=3)
VOLUMES = st.dictionaries(NAMES, st.integers(0, 1 << 40), min_size=1, max_size=20)


@st.composite
def tables_and_ties(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, str]]]:
    volumes = draw(VOLUMES)
    table = st.sampled_from(sorted(volumes))
    return volumes, draw(st.lists(st.tuples(table, table), max_size=10))


@given(tables_and_ties(), st.integers(1, 8))
def test_every_table_is_in_exactly_one_shard(
    given: tuple[dict[str, int], list[tuple[str, str]]], count: int
) -> None:
    volumes, ties = given
    groups = group_tables(volumes, ties)
    if len(groups) < count:
        with pytest.raises(ValueError, match="can't fill"):
            balance(groups, volumes, count)
        return
    shards = balance(groups, volumes, count)
    assert len(shards) == count
    assert sorted(table for shard in shards for table in shard.tables) == sorted(volumes)
    for shard in shards:
        assert shard.tables
        assert shard.volume == sum(volumes[table] for table in shard.tables)
    place = {table: n for n, shard in enumerate(shards) for table in shard.tables}
    assert all(place[one] == place[other] for one, other in ties)


@given(VOLUMES, st.integers(1, 8))
def test_shards_differ_in_volume_by_at_most_one_group(volumes: dict[str, int], count: int) -> None:
    groups = group_tables(volumes, [])
    shards = balance(groups, volumes, min(count, len(groups)))
    for one, other in combinations(shards, 2):
        for large, small in ((one, other), (other, one)):
            last_to_come = min((volumes[table] for table in large.tables if volumes[table]), default=0)
            assert large.volume - last_to_come <= small.volume


@given(tables_and_ties())
def test_the_order_of_tables_does_not_matter(given: tuple[dict[str, int], list[tuple[str, str]]]) -> None:
    volumes, ties = given
    groups = group_tables(volumes, ties)
    assert group_tables(list(reversed(list(volumes))), [(b, a) for a, b in reversed(ties)]) == groups
    backwards = {table: volumes[table] for table in reversed(list(volumes))}
    assert balance(groups[::-1], backwards, 1) == balance(groups, volumes, 1)
    assert balance(groups[::-1], backwards, len(groups)) == balance(groups, volumes, len(groups))


def test_ties_are_transitive() -> None:
    ties = [("orders", "customers"), ("items", "orders"), ("items", "elsewhere"), ("log", "log")]
    assert group_tables(["log", "items", "customers", "orders"], ties) == [
        ("customers", "items", "orders"),
        ("log",),
    ]


def test_tables_are_split_by_volume() -> None:
    volumes = {"a": 70, "b": 40, "c": 30, "d": 20, "e": 0}
    shards = balance(group_tables(volumes, []), volumes, 2)
    assert [(shard.tables, shard.volume) for shard in shards] == [(("a", "d"), 90), (("b", "c", "e"), 70)]


def test_without_volumes_tables_are_split_by_number() -> None:
    volumes = dict.fromkeys("abcdef", 0)
    assert [len(shard.tables) for shard in balance(group_tables(volumes, []), volumes, 3)] == [2, 2, 2]
