"""What a look at the publications tells about the time since the look before. No server."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from pgrelay.config import SourceConfig
from pgrelay.postgres.catalog import Catalog
from pgrelay.relay.publications import Publications

Entries = Mapping[str, frozenset[int]]


class FakeCatalog(Catalog):
    """One publication, whose entries change from look to look."""

    def __init__(self, *looks: Entries) -> None:
        self._looks = iter(looks)

    async def publications(self, names: Sequence[str]) -> dict[str, int]:
        return {"p": 16390}

    async def publication_entries(self, names: Sequence[str]) -> dict[str, frozenset[int]]:
        return dict(next(self._looks))


async def told(*looks: Entries) -> list[Any]:
    """The tables that are reported in the end."""
    publications = Publications(SourceConfig(dsn="", slot="s", publications=("p",)))
    catalog = FakeCatalog(*looks)
    with capture_logs() as entries:
        for _ in looks:
            await publications.check(catalog, 0)
    return [entry["tables"] for entry in entries]


async def test_a_table_or_schema_with_another_entry_was_put_back() -> None:
    before = {"t": frozenset({1}), "s.*": frozenset({2}), "stays": frozenset({3})}
    assert await told(before, before | {"t": frozenset({4}), "s.*": frozenset({5})}) == [["s.*", "t"]]


@pytest.mark.parametrize(
    "after",
    [{"t": frozenset({1})}, {"t": frozenset({1, 9})}, {"t": frozenset({1, 2}), "new": frozenset({3})}, {}],
    ids=["one of two entries", "another entry", "a new table", "gone, which is reported by name"],
)
async def test_a_table_that_was_published_throughout_is_not_reported(after: Entries) -> None:
    assert await told({"t": frozenset({1, 2})}, after) == []


async def test_the_first_look_reports_nothing() -> None:
    assert await told({"t": frozenset({1})}) == []
