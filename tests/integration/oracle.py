"""A database's changes from test_decoding, for comparison: Postgres's own output, parsed by other code.

Source: PostgreSQL's contrib/test_decoding/test_decoding.c, which prints
`table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 word[text]:'it''s'`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import psycopg

from tests.integration.databases import Database

# Column name to text; None is null, ... is a TOASTed value that did not change.
Row = dict[str, str | EllipsisType | None]

_CHANGE = re.compile(r"table (.+?): (INSERT|UPDATE|DELETE|TRUNCATE): ", re.DOTALL)
_COLUMN = re.compile(r"(\w+)\[[^]]*\]:('(?:[^']|'')*'|[^' ]+) ?", re.DOTALL)
_MESSAGE = re.compile(r"message: transactional: 1 prefix: (.*?), sz: \d+ content:(.*)", re.DOTALL)
_UNCHANGED = "unchanged-toast-datum"


@dataclass(frozen=True, slots=True)
class Change:
    """`kind` is INSERT, UPDATE, DELETE, TRUNCATE or MESSAGE; `old` is the logged old row, without nulls.

    A MESSAGE has its content as `table`; a TRUNCATE of several tables is several changes.
    """

    kind: str
    table: str
    old: Row | None = None
    new: Row | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    xid: int
    changes: tuple[Change, ...]


class Oracle:
    """A slot of test_decoding; it has all changes since its creation."""

    def __init__(self, database: Database, slot: str) -> None:
        self._database = database
        self._slot = slot

    def create(self) -> None:
        with self._database.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", [self._slot])

    def transactions(self) -> list[Transaction]:
        """The transactions committed since the slot was created, in commit order, without empty ones."""
        with self._database.connect() as connection:
            # PostgreSQL 18's test_decoding crashes on the abort of a transaction larger than this.
            connection.execute("SET logical_decoding_work_mem = '1GB'")
            lines = connection.execute(
                "SELECT xid::text::bigint, data FROM pg_logical_slot_get_changes(%s, NULL, NULL)",
                [self._slot],
            )
            return list(_transactions(lines))


def _transactions(lines: psycopg.Cursor[Any]) -> Iterator[Transaction]:
    changes: list[Change] = []
    for xid, line in lines:
        if line.startswith("BEGIN"):
            changes = []
        elif line.startswith("COMMIT"):
            if changes:
                yield Transaction(xid, tuple(changes))
        else:
            changes += _changes(line)


def _changes(line: str) -> list[Change]:
    if message := _MESSAGE.fullmatch(line):
        return [Change("MESSAGE", message[2])]
    change = _CHANGE.match(line)
    assert change is not None, line
    tables, kind, rest = change[1].replace("public.", ""), change[2], line[change.end() :]
    if kind == "TRUNCATE":
        return [Change(kind, table) for table in tables.split(", ")]
    if kind == "INSERT":
        return [Change(kind, tables, new=_row(rest))]
    if kind == "DELETE":
        return [Change(kind, tables, old=_row(rest))]
    if not rest.startswith("old-key: "):
        return [Change(kind, tables, new=_row(rest))]
    old, _, new = rest.removeprefix("old-key: ").partition(" new-tuple: ")
    return [Change(kind, tables, _row(old), _row(new))]


def _row(text: str) -> Row:
    row: Row = {}
    position = 0
    while position < len(text):
        column = _COLUMN.match(text, position)
        assert column is not None, text[position:]
        row[column[1]] = _value(column[2])
        position = column.end()
    return row


def _value(text: str) -> str | EllipsisType | None:
    if text == _UNCHANGED:
        return ...
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return None if text == "null" else text
