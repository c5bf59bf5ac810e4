"""When a new stream is needed because tables have other names by now. There is no server."""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from psycopg import sql

from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from pgrelay.relay.renames import Renames
from tests.wire import build

OID: Final = 16384
OTHER: Final = 16385


class Names(Catalog):
    """A catalogue with these names; None for a table's if only that of its schema counts."""

    server_version = 180000

    def __init__(self, *names: tuple[int, str, str | None]) -> None:
        self.names = list(names)
        self.asked: list[list[int]] = []

    async def rows(self, query: sql.SQL | sql.Composed, parameters: Sequence[Any] = ()) -> list[Any]:
        self.asked.append(parameters[0])
        return self.names


def described(**oids: int) -> dict[int, bytes]:
    return {oid: build.relation(oid, "public", name, "d", [])[1:] for name, oid in oids.items()}


async def test_a_table_that_is_described_by_its_name_needs_nothing() -> None:
    catalog = Names((OID, "public", "events"), (OTHER, "public", None))
    renames = Renames(described(events=OID, other=OTHER), set())
    await renames.ask(catalog, 0x9000)
    assert catalog.asked == [[OID, OTHER]]
    renames.check(0x9000)


@pytest.mark.parametrize(
    ("schema", "table", "now"),
    [
        ("public", "events_old", "public.events_old"),
        ("public", "event", "public.event"),
        ("sales", "events", "sales.events"),
        ("sales", None, "sales.events"),
    ],
)
async def test_an_outdated_name_is_known_once_all_before_the_query_was_relayed(
    schema: str, table: str | None, now: str
) -> None:
    """A stream that began earlier would bring the old name again."""
    renames = Renames(described(events=OID), set())
    await renames.ask(Names((OID, schema, table)), 0x9000)
    renames.check(0x8FFF)
    with pytest.raises(SourceUnavailable, match=f"^public.events is {now} now"):
        renames.check(0x9000)


async def test_what_was_asked_is_not_asked_again_before_it_counts() -> None:
    """If the relay lags, a later answer would never be old enough."""
    catalog = Names((OID, "public", "events_old"))
    renames = Renames(described(events=OID), set())
    await renames.ask(catalog, 0x9000)
    await renames.ask(catalog, 0xA000)
    assert len(catalog.asked) == 1
    with pytest.raises(SourceUnavailable):
        renames.check(0x9000)


async def test_a_description_that_came_meanwhile_counts() -> None:
    relations = described(events=OID)
    renames = Renames(relations, set())
    await renames.ask(Names((OID, "public", "events_old")), 0x9000)
    relations |= described(events_old=OID)
    renames.check(0x9000)


async def test_a_new_stream_is_begun_once_for_a_name() -> None:
    """If it does not help, as with names that are not UTF-8, there would be no end."""
    known: set[tuple[int, bytes]] = set()
    for name, begins in (("events_old", True), ("events_old", False), ("events_older", True)):
        renames = Renames(described(events=OID), known)
        await renames.ask(Names((OID, "public", name)), 0x9000)
        if begins:
            with pytest.raises(SourceUnavailable):
                renames.check(0x9000)
        else:
            renames.check(0x9000)


async def test_nothing_is_asked_before_a_table_was_described() -> None:
    catalog = Names()
    await Renames({}, set()).ask(catalog, 0x9000)
    assert catalog.asked == []
