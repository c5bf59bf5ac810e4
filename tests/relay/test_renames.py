"""When a new stream is needed because tables have other names by now. There is no server."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from psycopg import sql

from pgrelay.errors import SourceUnavailable
from pgrelay.lsn import format_lsn
from pgrelay.postgres.catalog import Catalog
from pgrelay.relay.renames import RenameAttempt, Renames
from tests.clock import Clock
from tests.wire import build

OID: Final = 16384
OTHER: Final = 16385
LSN: Final = 0x9000


class Names(Catalog):
    """A catalogue with these tables; the name is None for one of which only the schema's counts."""

    server_version = 180000

    def __init__(self, *tables: tuple[int, str, str | None]) -> None:
        self.tables = list(tables)
        self.asked: list[list[int]] = []

    async def rows(self, query: sql.SQL | sql.Composed, parameters: Sequence[Any] = ()) -> list[Any]:
        self.asked.append(parameters[0])
        return [(*table, format_lsn(LSN)) for table in self.tables]


def described(**oids: int) -> dict[int, bytes]:
    return {oid: build.relation(oid, "public", name, "d", [])[1:] for name, oid in oids.items()}


async def begins_anew(
    catalog: Catalog,
    relations: dict[int, bytes],
    tried: dict[int, RenameAttempt],
    lsn: int = LSN,
    takes: Callable[[str], bool] = lambda _: True,
) -> str:
    """Why a session begins a new stream; empty if it does not."""
    renames = Renames(relations, takes, tried)
    await renames.look_up(catalog)
    try:
        renames.check(lsn)
    except SourceUnavailable as reason:
        return str(reason)
    return ""


async def test_a_table_that_is_described_as_it_is_needs_nothing() -> None:
    catalog = Names((OID, "public", "events"), (OTHER, "public", None))
    assert await begins_anew(catalog, described(events=OID, other=OTHER), {}) == ""
    assert catalog.asked == [[OID, OTHER]]


@pytest.mark.parametrize(
    ("schema", "table", "now"),
    [
        ("public", "events_old", "public.events_old"),
        ("public", "event", "public.event"),
        ("sales", "events", "sales.events"),
        ("sales", None, "sales.events"),
    ],
)
async def test_an_outdated_name_counts_once_all_before_the_query_was_relayed(
    schema: str, table: str | None, now: str
) -> None:
    """A stream that began earlier would bring the old name again."""
    catalog = Names((OID, schema, table))
    assert await begins_anew(catalog, described(events=OID), {}, LSN - 1) == ""
    assert (await begins_anew(catalog, described(events=OID), {})).startswith(f"public.events is {now} now, ")


@pytest.mark.parametrize(("taken", "begins"), [("events", True), ("events_old", True), ("other", False)])
async def test_only_tables_that_are_relayed_under_either_name_count(taken: str, begins: bool) -> None:
    catalog = Names((OID, "public", "events_old"))
    raised = await begins_anew(catalog, described(events=OID), {}, takes=f"public.{taken}".__eq__)
    assert bool(raised) is begins


async def test_what_was_asked_is_not_asked_again_before_it_counts() -> None:
    """If the relay lags, a later answer would never be old enough."""
    catalog = Names((OID, "public", "events_old"))
    renames = Renames(described(events=OID), lambda _: True, {})
    await renames.look_up(catalog)
    renames.check(LSN - 1)
    await renames.look_up(catalog)
    assert len(catalog.asked) == 1
    with pytest.raises(SourceUnavailable):
        renames.check(LSN)


async def test_a_description_that_came_meanwhile_counts() -> None:
    relations = described(events=OID)
    renames = Renames(relations, lambda _: True, {})
    await renames.look_up(Names((OID, "public", "events_old")))
    relations |= described(events_older=OID)
    renames.check(LSN)


async def test_what_does_not_help_is_tried_again_later_and_later(clock: Clock) -> None:
    """A transaction that was open during the rename may bring the old name again."""
    tried: dict[int, RenameAttempt] = {}
    catalog = Names((OID, "public", "events_old"))
    for pause_s in (60, 120, 240):
        assert await begins_anew(catalog, described(events=OID), tried)
        clock.now += pause_s - 1
        assert not await begins_anew(catalog, described(events=OID), tried)
        clock.now += 1


async def test_a_table_that_takes_turns_with_its_names_is_followed_each_time(clock: Clock) -> None:
    tried: dict[int, RenameAttempt] = {}
    for was, now in [("a", "b"), ("b", "a")] * 3:
        assert await begins_anew(Names((OID, "public", now)), described(**{was: OID}), tried)
        assert not await begins_anew(Names((OID, "public", now)), described(**{now: OID}), tried)


async def test_nothing_is_asked_before_a_table_was_described() -> None:
    catalog = Names()
    assert await begins_anew(catalog, {}, {}) == ""
    assert catalog.asked == []
