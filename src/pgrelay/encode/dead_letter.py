"""Dead letters: what a change becomes if it can't be a record of its own topic.

A dead letter's key is the record's, if that could be encoded. Its value is what did not pass, as raw as
possible: the column's bytes as the server sent them, or the record that a topic would refuse. Headers, all of
them text, say which change it was and why; `docs/records.md` lists them. Columns that the configuration hides
are left out.
"""

import json
from dataclasses import dataclass
from typing import Final

from pgrelay.encode.options import Limits
from pgrelay.encode.plan import Plan
from pgrelay.encode.records import Headers, Record
from pgrelay.errors import RecordError
from pgrelay.lsn import format_lsn
from pgrelay.wire import pgoutput
from pgrelay.wire.tuples import BINARY, NULL, TupleData

# A letter must pass where its record did not: these are far below the defaults of brokers and producers.
_MAX_VALUE_BYTES: Final = 256 * 1024
_MAX_ROW_BYTES: Final = 64 * 1024
_MAX_COLUMN_BYTES: Final = 1024

_MAX_LATEST: Final = 20


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """For the log: whose change was set aside, and why."""

    table: str
    error: str


class DeadLetters:
    """Makes dead letters, and counts them."""

    def __init__(self, topic: str, limits: Limits) -> None:
        """`limits` are those that every topic has."""
        self._topic = topic
        self._max_bytes = min(_MAX_VALUE_BYTES, limits.max_bytes // 4)
        # For a row's values: each of their bytes may take six as JSON.
        self._max_row_bytes = min(_MAX_ROW_BYTES, limits.max_bytes // 16)
        self._counts: dict[str, int] = {}
        self._latest: list[DeadLetter] = []

    def record(self, key: bytes | None, value: bytes | None, error: RecordError, headers: Headers) -> Record:
        """The dead letter for a change that failed with `error`, cut to a size that every topic accepts."""
        self._counts[error.table] = self._counts.get(error.table, 0) + 1
        if len(self._latest) < _MAX_LATEST:
            self._latest.append(DeadLetter(error.table, str(error)))
        more: Headers = [
            ("lsn", format_lsn(error.lsn).encode()),
            ("table", _text(error.table)),
            ("column", _text(error.column)),
            ("error", _text(str(error))),
        ]
        if value is not None and len(value) > self._max_bytes:
            more.append(("value_bytes", b"%d" % len(value)))
            value = value[: self._max_bytes]
        if key is not None and len(key) > self._max_bytes:
            more.append(("key_bytes", b"%d" % len(key)))
            key = key[: self._max_bytes]
        return self._topic, key, value, more + headers, 0

    def row_text(self, plan: Plan, change: pgoutput.PgoutputMessage) -> bytes:
        """The row of an insert, update or delete as Postgres sent it: a JSON object of texts and nulls.

        Bytes that are not UTF-8 are written ``\\xff``, binary values in hexadecimal. Long values are left
        out, as are those of columns that the configuration hides.
        """
        match change:
            case pgoutput.Insert(new=row) | pgoutput.Update(new=row) | pgoutput.Delete(old=row):
                return _members(plan, row, self._max_row_bytes)
            case _:
                return b"{}"

    def take_counts(self) -> dict[str, int]:
        """The number of dead letters by table since the last call."""
        counts, self._counts = self._counts, {}
        return counts

    def take_latest(self) -> list[DeadLetter]:
        """The first few dead letters since the last call."""
        latest, self._latest = self._latest, []
        return latest


def _members(plan: Plan, row: TupleData, max_bytes: int) -> bytes:
    members: dict[str, str | None] = {}
    left = max_bytes
    for column, kind, value in zip(plan.columns, row.kinds, row.values, strict=False):
        if not column.visible:
            continue
        if kind == NULL:
            members[column.name] = None
        elif value is not None and len(value) <= min(left, _MAX_COLUMN_BYTES):
            left -= len(value)
            members[column.name] = value.hex() if kind == BINARY else value.decode(errors="backslashreplace")
    return json.dumps(members).encode()


def _text(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
