"""What a look at the publications tells about the time since the look before. No server."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from pgrelay.config import SourceConfig
from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog, PublicationRow
from pgrelay.postgres.publication_entries import EntryKey
from pgrelay.postgres.slots import Slot
from pgrelay.relay.publications import Publications, PublishedTables

Entries = Mapping[EntryKey, tuple[str, frozenset[int]]]

T, SCHEMA, STAYS, NEW = (6106, 16400), (6237, 16400), (6106, 16402), (6106, 16403)


class FakeCatalog(Catalog):
    """One publication, whose entries change from look to look."""

    def __init__(self, *looks: Entries) -> None:
        self._looks = iter(looks)
        self.operations: list[str] | None = ["insert"]  # None: the server does not answer
        self.tables = {1: "a", 2: "b"}
        self.published = {1, 2}

    async def published_tables(self, names: Sequence[str]) -> list[tuple[int, str, str]]:
        return [(oid, "public", name) for oid, name in self.tables.items() if oid in self.published]

    async def existing_tables(self, oids: Collection[int]) -> frozenset[int]:
        return frozenset(oids) & self.tables.keys()

    async def publications(self, names: Sequence[str]) -> dict[str, PublicationRow]:
        if self.operations is None:
            raise SourceUnavailable("cut")
        return {"p": PublicationRow(16390, tuple(self.operations))}

    @property
    def server_version(self) -> int:
        return 180000

    async def rows(self, query: Any, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "catalog_xmin" not in query.as_string():
            return [(*what, name, oids) for what, (name, oids) in next(self._looks).items()]
        # New entries of old publications.
        return [(f"t{number:02}",) for number in range(30)] if "since" in query.as_string() else []


async def warnings_of(*looks: Entries) -> list[Any]:
    """The tables that are reported in the end."""
    publications = Publications(SourceConfig(dsn="", slot="s", publications=("p",)))
    catalog = FakeCatalog(*looks)
    with capture_logs() as entries:
        for _ in looks:
            await publications.check(catalog, 0)
    return [entry["tables"] for entry in entries]


def listed(name: str, *entries: int) -> tuple[str, frozenset[int]]:
    return name, frozenset(entries)


async def test_a_table_or_schema_with_another_entry_was_put_back() -> None:
    before = {T: listed("t", 1), SCHEMA: listed("s.*", 2), STAYS: listed("stays", 3)}
    assert await warnings_of(before, before | {T: listed("t", 4), SCHEMA: listed("s.*", 5)}) == [["s.*", "t"]]


@pytest.mark.parametrize(
    "after",
    [
        {T: listed("t", 1)},
        {T: listed("t", 1, 9)},
        {T: listed("t", 1, 2), NEW: listed("new", 3)},
        {T: listed("was_t", 1, 2), NEW: listed("t", 3)},
        {NEW: listed("t", 3)},
        {},
    ],
    ids=["one of two entries", "another entry", "a new table", "renamed", "made anew", "gone"],
)
async def test_a_table_that_was_published_throughout_is_not_reported(after: Entries) -> None:
    """What left the publication is reported by the observer."""
    assert await warnings_of({T: listed("t", 1, 2)}, after) == []


async def test_the_first_look_reports_nothing() -> None:
    assert await warnings_of({T: listed("t", 1)}) == []


async def test_other_kinds_of_changes_are_reported_once_the_first_are_known() -> None:
    publications = Publications(SourceConfig(dsn="", slot="s", publications=("p",)))
    catalog = FakeCatalog({}, {}, {}, {})
    catalog.operations = None
    with pytest.raises(SourceUnavailable):
        await publications.check(catalog, 0)
    with capture_logs() as entries:
        for operations in ["insert", "delete"], ["insert"], ["insert"]:
            catalog.operations = operations
            await publications.check(catalog, 0)
    assert [entry["publications"] for entry in entries] == [["p"]]


async def test_a_first_look_at_a_slot_reports_tables_that_may_be_new_to_it() -> None:
    publications = Publications(SourceConfig(dsn="", slot="s", publications=("p",)))
    catalog = FakeCatalog({})
    slot = Slot("pgoutput", "logical", "db", None, 0, 0, None)
    with capture_logs() as entries:
        await publications.require(catalog, None)
        assert entries == []  # a slot that is yet to be made comes after all of them
        await publications.require(catalog, slot)
        await publications.check(catalog, 0)
        await publications.require(catalog, slot)
    [warning] = entries
    assert "may have been put into the publication" in warning["event"]
    assert (len(warning["tables"]), warning["count"]) == (20, 30)


async def test_a_table_that_left_is_told_from_one_that_was_dropped() -> None:
    """By every later look, because nobody may have seen the first."""
    publications, catalog = Publications(SourceConfig(dsn="", slot="s", publications=("p",))), FakeCatalog()
    every = {1: "public.a", 2: "public.b"}
    assert await publications.tables(catalog) == PublishedTables(every, frozenset())
    catalog.published = {1}
    for _ in range(2):
        assert await publications.tables(catalog) == PublishedTables({1: "public.a"}, frozenset({2}))
    catalog.published, catalog.tables = {3}, {2: "b", 3: "a"}
    assert await publications.tables(catalog) == PublishedTables({3: "public.a"}, frozenset({2}))
