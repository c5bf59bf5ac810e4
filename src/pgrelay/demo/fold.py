"""The proof: the tables rebuilt from their topics alone, and compared with the tables themselves."""

import json
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from pgrelay.demo.change import TOMBSTONE, TRUNCATE, Change, Row

# Postgres itself parses the rebuilt rows as rows of the table, and counts the rows that only one side has.
_COMPARE: Final = sql.SQL("""
WITH rebuilt AS (SELECT * FROM jsonb_populate_recordset(NULL::{table}, %s)),
     missing AS (TABLE {table} EXCEPT ALL TABLE rebuilt),
     surplus AS (TABLE rebuilt EXCEPT ALL TABLE {table})
SELECT (SELECT count(*) FROM {table}), (SELECT count(*) FROM missing), (SELECT count(*) FROM surplus)
""")


class Fold:
    """Each table's rows by key, as the changes so far leave them."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {}

    def apply(self, change: Change) -> Row | None:
        """Apply a change; return the previous row, or None if there was none."""
        rows = self._rows.setdefault(change.table, {})
        if change.op == TRUNCATE:
            rows.clear()
            return None
        if change.op == TOMBSTONE:
            return None
        if change.after is None:
            return rows.pop(change.row_key, None)
        previous = rows.get(change.row_key)
        # A column that is missing because it did not change keeps its previous value.
        rows[change.row_key] = {**(previous or {}), **change.after}
        return previous

    def rows(self, table: str) -> list[Row]:
        return list(self._rows.get(table, {}).values())

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {table: len(rows) for table, rows in self._rows.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows a table has, and how many are `missing` from the other rows or `surplus` in them."""

    table: str
    rows: int
    missing: int
    surplus: int

    @property
    def equal(self) -> bool:
        return not self.missing and not self.surplus


def compare(connection: psycopg.Connection, rows: list[Row], table: str) -> Comparison:
    """Compare one table, to which nobody writes meanwhile, with rows from elsewhere."""
    query = _COMPARE.format(table=sql.Identifier(table))
    found = connection.execute(query, (json.dumps(rows),)).fetchone()
    assert found is not None, "counts are one row"
    return Comparison(table, *found)
