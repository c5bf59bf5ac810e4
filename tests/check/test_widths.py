"""The widest rows found, compared with the largest record."""

from collections.abc import Sequence
from typing import Any

from pgrelay.check.widths import wide_rows, width_findings
from pgrelay.errors import SourceUnavailable
from pgrelay.postgres.catalog import Catalog
from tests.check.tables import table

LIMIT = 1_000_000


class FakeCatalog(Catalog):
    """Three tables with large values: one is locked, one has wide rows, and one we may not read."""

    async def rows(self, query: Any, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if parameters:
            named = ("locked", True), ("wide", True), ("closed", False)
            return [("public", name, readable, 1, len(named)) for name, readable in named]
        if "locked" in query.as_string():
            raise SourceUnavailable("is a table locked?")
        return [(2 * LIMIT,)]


def test_rows_that_fit_are_ok() -> None:
    [finding] = wide_rows({"public.docs": LIMIT - 1}, [], 12, LIMIT)
    assert finding.level == "ok"
    assert finding.what == (
        "samples of up to 200 rows from 1 of 12 tables with large values have no row above 977 KiB"
    )
    [finding] = wide_rows({}, [], 0, LIMIT)
    assert finding.level == "ok"
    assert finding.what == "no table has values large enough (TOAST) for rows above 977 KiB"


def test_rows_that_are_too_wide_are_a_warning() -> None:
    [finding] = wide_rows({"public.docs": 3 * LIMIT, "public.notes": 10}, [], 2, LIMIT)
    assert (finding.level, finding.what) == ("warning", "rows of up to 2.86 MiB in public.docs")
    assert "message.max.bytes: 6000000" in finding.cure


async def test_tables_that_could_not_be_searched_are_named() -> None:
    """And hide no other table."""
    wide, closed, locked = await width_findings(FakeCatalog(""), [table()], LIMIT)
    assert (wide.level, wide.what) == ("warning", "rows of up to 1.91 MiB in public.wide")
    assert (closed.level, closed.what) == (
        "ok",
        "1 table with large values: public.closed; not searched for rows above 977 KiB: "
        "no right to SELECT from them",
    )
    assert (locked.level, locked.what) == (
        "warning",
        "the width of rows in public.locked could not be checked",
    )
    assert locked.why == "is a table locked?"
