"""Records in the form that tests compare: the change itself, without fields that differ in every run."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.integration.topics import Record

Row = dict[str, Any]


class Change(NamedTuple):
    """The change of a row in a record. A tombstone has no `op`."""

    op: str | None
    key: Any
    before: Any
    after: Any


def change(record: Record) -> Change:
    if record.value is None:
        return Change(None, record.json_key, None, None)
    value = record.json
    return Change(value["op"], record.json_key, value["before"], value["after"])


def changes(records: Iterable[Record]) -> list[Change]:
    return [change(record) for record in records]


def created(key: Any, after: Any) -> Change:
    return Change("c", key, None, after)


def updated(key: Any, after: Any, before: Any = None) -> Change:
    return Change("u", key, before, after)


def deleted(key: Any, before: Any) -> tuple[Change, Change]:
    """The delete and the tombstone that follows it."""
    return Change("d", key, before, None), Change(None, key, None, None)


TRUNCATED = Change("t", None, None, None)


def place(record: Record) -> tuple[int, int]:
    """The position of a change among all changes of its database."""
    source = record.json["source"]
    return source["commit_lsn"], source["seq"]


def in_order(records: Iterable[Record]) -> list[Record]:
    """The changes in commit order, without repeats and without tombstones, which have no position."""
    by_place = {place(record): record for record in records if record.value is not None}
    return [by_place[key] for key in sorted(by_place)]


def fold(records: Iterable[Record]) -> list[Row]:
    """The rows of a table with a key after all its records, by key.

    Raises AssertionError if a record contradicts the ones before: a create of a row that exists, or an update
    or delete of one that does not.
    """
    rows: dict[bytes, Row] = {}
    moved: dict[bytes, Row] = {}
    for record in in_order(records):
        value, key = record.json, record.key
        if value["op"] == "t":
            rows.clear()
            continue
        assert key is not None
        assert (key in rows) == (value["op"] != "c"), f"{value['op']} of {key!r} at {place(record)}"
        old = rows.pop(key, {})
        if value["op"] == "d":
            moved[key] = old
            continue
        if value["op"] == "c":
            old = moved.get(dict(record.headers).get("__debezium.oldkey") or b"", {})
        rows[key] = value["after"] | {name: old[name] for name in value.get("unchanged", ())}
    return [rows[key] for key in sorted(rows, key=lambda key: sorted(json.loads(key).items()))]


def fold_keyless(records: Iterable[Record], shape: Callable[[Row], Row]) -> Counter[str]:
    """For a table without a key under REPLICA IDENTITY FULL: how often it has each row, as JSON.

    `shape` converts each row to the table's final columns, since earlier records may have other columns.
    """
    rows = Counter[str]()
    for record in in_order(records):
        change_ = change(record)
        if change_.op == "t":
            rows.clear()
        if change_.before is not None:
            row = as_text(shape(change_.before))
            assert rows[row] > 0, f"{change_.op} of {row}, which is not there, at {place(record)}"
            rows[row] -= 1
        if change_.after is not None:
            rows[as_text(shape(change_.after))] += 1
    return +rows


def as_text(row: Row) -> str:
    """A row as JSON, the same for equal rows."""
    return json.dumps(row, sort_keys=True)
