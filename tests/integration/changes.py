"""Records as tests look at them: what they say of a change, less what no two runs have in common."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.integration.topics import Record


class Change(NamedTuple):
    """What a record says of a row. A tombstone has no `op`."""

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
    """Where a change stands among all those of its database."""
    source = record.json["source"]
    return source["commit_lsn"], source["seq"]
