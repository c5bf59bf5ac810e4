"""One record of the relay, as a consumer reads it."""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

TOMBSTONE: Final = "∅"
TRUNCATE: Final = "t"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """`op` is the record's letter, or TOMBSTONE. A logical message has `message` as its table.

    `position` orders the changes of a database: the commit's LSN and the change's number in the transaction.
    """

    table: str
    op: str
    key: Row
    before: Row | None
    after: Row | None
    position: tuple[int, int]
    commit_us: int
    xid: int | None

    @property
    def row_key(self) -> tuple[Any, ...]:
        return tuple(self.key.values())


def parse_change(topic: str, key: bytes | None, value: bytes | None, previous: Change | None) -> Change:
    """Parse a record. `previous` is the change of the record that precedes it in the partition."""
    fields: Row = json.loads(key) if key is not None else {}
    if value is None:
        assert previous is not None, "a tombstone follows its delete"
        last = previous
        return Change(last.table, TOMBSTONE, fields, None, None, last.position, last.commit_us, last.xid)
    record = json.loads(value)
    source = record["source"]
    after = record["after"]
    if "message" in record:
        after = {"content": base64.b64decode(record["message"]["content"]).decode(errors="replace")}
    return Change(
        topic.rpartition(".")[2],
        record["op"],
        fields,
        record["before"],
        after,
        (source["commit_lsn"], source["seq"]),
        source["ts_us"],
        source["txId"],
    )
