"""Compare the widest rows with the largest record, in a sample of the tables that may have such rows.

Only tables with values in their TOAST table are sampled: those with the largest ones, some rows each, and
only if we may SELECT from them (a run itself does not need that right). The size of a TOAST table says little
about its values, since compression may turn 250 bytes into one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.check.findings import Finding, first_few, not_checked, ok, warning
from pgrelay.check.table_queries import Table
from pgrelay.errors import PgrelayError
from pgrelay.figures import counted, size
from pgrelay.postgres.catalog import Catalog

_TABLES: Final = 10
_ROWS: Final = 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table whose rows may be wide. `schema` and `name` are unquoted, as in the catalogue."""

    schema: str
    name: str
    readable: bool
    pages: int

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


async def width_findings(catalog: Catalog, leaves: Sequence[Table], largest_record: int) -> list[Finding]:
    """`leaves` are the tables that hold the rows; `largest_record` in bytes."""
    candidates, total = await _candidates(catalog, leaves)
    widths: dict[str, int] = {}
    failed: list[Finding] = []
    for each in candidates:
        if each.readable:
            try:
                widths[str(each)] = await _widest(catalog, each)
            except PgrelayError as refusal:
                failed.append(not_checked(f"the width of rows in {each}", refusal))
    unreadable = [str(each) for each in candidates if not each.readable]
    return wide_rows(widths, unreadable, total, largest_record) + failed


async def _candidates(catalog: Catalog, leaves: Sequence[Table]) -> tuple[list[Candidate], int]:
    """Those to sample, and how many tables have large values."""
    query = sql.SQL(
        "SELECT n.nspname, c.relname, has_table_privilege(c.oid, 'SELECT'), c.relpages, count(*) OVER () "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = ANY (%s) AND c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0 "
        "ORDER BY pg_relation_size(c.reltoastrelid) DESC LIMIT {}"
    ).format(sql.Literal(_TABLES))
    rows = await catalog.rows(query, ([table.oid for table in leaves],))
    return [Candidate(*row[:4]) for row in rows], rows[0][4] if rows else 0


async def _widest(catalog: Catalog, table: Candidate) -> int:
    """Bytes of the widest row of a sample, as text; 0 if the sample has no row."""
    percent = 100.0 if table.pages < _ROWS else 100.0 * _ROWS / table.pages
    # Not t::text: in a table with a column t, that would be the column.
    query = sql.SQL(
        "SELECT coalesce(max(octet_length((t.*)::text)), 0) "
        "FROM (SELECT * FROM {} TABLESAMPLE SYSTEM ({}) LIMIT {}) t"
    ).format(sql.Identifier(table.schema, table.name), sql.Literal(percent), sql.Literal(_ROWS))
    return int((await catalog.rows(query))[0][0])


def wide_rows(
    widths: dict[str, int], unreadable: Sequence[str], total: int, largest_record: int
) -> list[Finding]:
    """`widths` has the widest row of each sample, in bytes; `unreadable` are tables that we may not read.

    `total` is how many tables have large values; some may be in neither.
    """
    limit = size(largest_record)
    if not total:
        return [ok(f"no table has values large enough (TOAST) for rows above {limit}")]
    wide = {table: width for table, width in widths.items() if width >= largest_record}
    findings: list[Finding] = []
    if wide:
        most = max(wide.values())
        findings.append(
            warning(
                f"rows of up to {size(most)} in {first_few(sorted(wide))}",
                f"message.max.bytes is {limit}; a larger record can't be delivered",
                f"set message.max.bytes: {2 * most} in sink.kafka, and max.message.bytes for their topics",
            )
        )
    elif widths:
        of = f"{len(widths):,} of {counted(total, 'table')} with large values"
        findings.append(ok(f"samples of up to {_ROWS} rows from {of} have no row above {limit}"))
    if unreadable:
        tables = f"{counted(len(unreadable), 'table')} with large values: {first_few(unreadable)}"
        findings.append(ok(f"{tables}; not searched for rows above {limit}: no right to SELECT from them"))
    return findings
