"""Compare the widest rows with the largest record, in a sample of the tables that may have such rows.

Only tables whose TOAST table could hold such a row, compressed, are sampled: those with the largest ones,
some rows each, and only if we may SELECT from them (a run itself does not need that right).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from pgrelay.check.findings import Finding, ok, some, warning
from pgrelay.check.table_queries import Table
from pgrelay.errors import PgrelayError
from pgrelay.figures import counted, size
from pgrelay.postgres.catalog import Catalog

_TABLES: Final = 10
_ROWS: Final = 200
# What Postgres's compression makes of bytes that are all the same, about.
_BEST_COMPRESSION: Final = 100


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table whose rows may be wide. `schema` and `name` are unquoted, as in the catalogue."""

    schema: str
    name: str
    readable: bool
    pages: int

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


async def width_findings(catalog: Catalog, stored: Sequence[Table], largest_record: int) -> list[Finding]:
    """`stored` are the tables that hold the rows; `largest_record` in bytes."""
    candidates = await _candidates(catalog, stored, largest_record)
    widths: dict[str, int] = {}
    unread = [str(each) for each in candidates if not each.readable]
    for each in candidates:
        if each.readable:
            try:
                widths[str(each)] = await _widest(catalog, each)
            except PgrelayError as refusal:
                unread.append(f"{each} ({refusal})")
    return judged(widths, unread, largest_record)


async def _candidates(catalog: Catalog, stored: Sequence[Table], largest_record: int) -> list[Candidate]:
    query = sql.SQL(
        "SELECT n.nspname, c.relname, has_table_privilege(c.oid, 'SELECT'), c.relpages "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = ANY (%s) AND c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > %s / {} "
        "ORDER BY pg_relation_size(c.reltoastrelid) DESC LIMIT {}"
    ).format(sql.Literal(_BEST_COMPRESSION), sql.Literal(_TABLES))
    rows = await catalog.rows(query, ([table.oid for table in stored], largest_record))
    return [Candidate(*row) for row in rows]


async def _widest(catalog: Catalog, table: Candidate) -> int:
    """Bytes of the widest row of a sample, as text; 0 if the sample has no row."""
    percent = 100.0 if table.pages < _ROWS else 100.0 * _ROWS / table.pages
    query = sql.SQL(
        "SELECT coalesce(max(octet_length(t::text)), 0) "
        "FROM (SELECT * FROM {} TABLESAMPLE SYSTEM ({}) LIMIT {}) t"
    ).format(sql.Identifier(table.schema, table.name), sql.Literal(percent), sql.Literal(_ROWS))
    return int((await catalog.rows(query))[0][0])


def judged(widths: dict[str, int], unread: Sequence[str], largest_record: int) -> list[Finding]:
    """`widths` has the widest row of each table, in bytes; `unread` are tables that could not be read."""
    wide = {table: width for table, width in widths.items() if width >= largest_record}
    found: list[Finding] = []
    if wide:
        most = max(wide.values())
        found.append(
            warning(
                f"rows of up to {size(most)} in {some(sorted(wide))}",
                f"message.max.bytes is {size(largest_record)}; a larger record can't be delivered",
                f"set message.max.bytes: {2 * most} in sink.kafka, and max.message.bytes for their topics",
            )
        )
    if unread:
        tables = f"{counted(len(unread), 'table')} with large values: {some(unread)}"
        found.append(ok(f"{tables}; not searched for rows above {size(largest_record)}: not readable by us"))
    if not found:
        samples = f"samples of {counted(len(widths), 'table')} with large values have no row"
        searched = samples if widths else "no table's values are large enough for rows"
        found.append(ok(f"{searched} above {size(largest_record)}"))
    return found
