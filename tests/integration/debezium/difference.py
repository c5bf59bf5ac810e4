"""Compare two topics, record by record and field by field."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.integration.topics import Record

# Fields that differ in every run: who wrote the record, and when.
_OWN: Final = ("source.version", "source.name", "ts_ms", "ts_us")


class Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Difference:
    """`field` is a path such as `after.price`, `source.lsn`, `key`; or `record` if only one side has it."""

    table: str
    op: str
    field: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        return f"{self.table} {self.op} {self.field}: {_short(self.ours)} | {_short(self.theirs)}"


def differences(table: str, ours: list[Record], theirs: list[Record]) -> Iterator[Difference]:
    """Records are paired by their change: both are in the order of the WAL."""
    left, right = _by_change(ours), _by_change(theirs)
    for change in sorted({*left, *right}):
        pair = left.get(change), right.get(change)
        op = change[-1]
        if pair[0] is None or pair[1] is None:
            yield Difference(table, op, "record", *(_whole(record) for record in pair))
            continue
        yield from _fields(table, op, _flat(pair[0]), _flat(pair[1]))


def transaction_differences(ours: list[Record], theirs: list[Record]) -> Iterator[Difference]:
    """Records of the transaction topics, paired by transaction and status."""
    left, right = _by_status(ours), _by_status(theirs)
    for status in sorted({*left, *right}):
        mine, its = (side.get(status) for side in (left, right))
        if mine is None or its is None:
            yield Difference("(transactions)", status[1], "record", _whole(mine), _whole(its))
            continue
        yield from _fields("(transactions)", status[1], _counted(mine), _counted(its))


def _by_status(records: list[Record]) -> dict[tuple[int, str], Record]:
    """By transaction's number, which both have before the colon of `id`."""
    return {(int(it.json["id"].split(":")[0]), it.json["status"]): it for it in records}


def _counted(record: Record) -> dict[str, Any]:
    """The members of a transaction's record; the counts of its tables in no order."""
    fields: dict[str, Any] = {f"key.{name}": member for name, member in record.json_key.items()}
    fields |= record.json
    counts = {it["data_collection"]: it["event_count"] for it in fields.pop("data_collections") or ()}
    return fields | {f"data_collections.{name}": count for name, count in counts.items()}


def _by_change(records: list[Record]) -> dict[tuple[int, int, str], Record]:
    """By LSN, then place among the records of one LSN; a tombstone follows its delete."""
    found: dict[tuple[int, int, str], Record] = {}
    counts: defaultdict[int, int] = defaultdict(int)
    lsn = 0
    for record in records:
        op = "tombstone" if record.value is None else record.json["op"]
        # Pair by the change's own LSN: Debezium gives no commit LSN.
        lsn = lsn if record.value is None else record.json["source"]["lsn"]
        # A tombstone has no number of its own, so that a lone one does not shift the others.
        place = counts[lsn] - 1 if record.value is None else counts[lsn]
        counts[lsn] += record.value is not None
        found[lsn, place, op] = record
    return found


def _fields(table: str, op: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
    for field in dict.fromkeys((*ours, *theirs)):
        left, right = ours.get(field, ABSENT), theirs.get(field, ABSENT)
        if not _same(left, right):
            yield Difference(table, op, field, left, right)


def _same(left: object, right: object) -> bool:
    """Compare as JSON: 1 and 1.0 are the same number; true and 1 are different."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _flat(record: Record) -> dict[str, Any]:
    """Paths to values: each member of `before`, `after`, `source` and `transaction`; all else as a whole."""
    # The key as text: its bytes decide the partition, and which records compaction considers equal.
    fields: dict[str, Any] = {"key": record.key.decode() if record.key is not None else None}
    for name, content in record.headers:
        fields[f"header.{name}"] = content.decode() if content is not None else None
    for name, value in (record.json or {}).items():
        if name in ("before", "after", "source", "transaction") and value is not None:
            fields |= {f"{name}.{member}": inner for member, inner in value.items()}
        else:
            fields[name] = value
    return {field: value for field, value in fields.items() if field not in _OWN}


def _whole(record: Record | None) -> object:
    return ABSENT if record is None else (record.json_key, record.json)


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, Absent | tuple) else json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else f"{text[:60]}… ({len(text)} characters)"
