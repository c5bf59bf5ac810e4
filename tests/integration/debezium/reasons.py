"""Why our records differ from Debezium's; see also "Differences from Debezium" in docs/records.md."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.integration.debezium.difference import ABSENT, Difference


@dataclass(frozen=True, slots=True)
class Reason:
    """`table`, `op` and `field` are regular expressions; `holds` is a predicate on both values."""

    text: str
    table: str = ".*"
    op: str = ".*"
    field: str = ".*"
    holds: Callable[[object, object], bool] = lambda ours, theirs: True

    def explains(self, found: Difference) -> bool:
        fits = zip((self.table, self.op, self.field), (found.table, found.op, found.field), strict=True)
        return all(re.fullmatch(pattern, text) for pattern, text in fits) and self.holds(
            found.ours, found.theirs
        )


def types(text: str, columns: str, holds: Callable[[object, object], bool] | None = None) -> Reason:
    """For columns of the table `types`, a regular expression."""
    field = rf"after\.({columns})"
    return Reason(text, "types", "c", field) if holds is None else Reason(text, "types", "c", field, holds)


def only_ours(ours: object, theirs: object) -> bool:
    return theirs is ABSENT


def only_theirs(ours: object, theirs: object) -> bool:
    return ours is ABSENT


def null_there(ours: object, theirs: object) -> bool:
    return theirs is None


def _not_finite(ours: object, theirs: object) -> bool:
    return ours in ("NaN", "Infinity", "-Infinity", "infinity", "-infinity")


def _thousandth(ours: object, theirs: object) -> bool:
    return isinstance(ours, int) and isinstance(theirs, int) and ours == theirs * 1000


def _same_number(ours: object, theirs: object) -> bool:
    """Whether both are the same number, with different scales."""
    return isinstance(ours, dict) and isinstance(theirs, dict) and ours["scale"] > theirs["scale"]


_SOURCE: Final = (
    Reason(
        "ours adds to source what orders and identifies changes",
        field=r"source\.(commit_lsn|seq)",
        holds=only_ours,
    ),
    Reason("nanoseconds would be three zeros: Postgres has microseconds", field=r"(source\.)?ts_ns"),
    Reason("the origin is named; its LSN is not", field=r"source\.origin_lsn", holds=only_theirs),
    Reason(
        "the last commit in sequence is the LSN of the commit, as in commit_lsn; Debezium's is where it ends",
        field=r"source\.sequence",
    ),
    Reason(
        "a message outside transactions has the time at which it came; Debezium gives it an earlier commit's",
        r"\(messages\)",
        field=r"source\.ts_[mu]s",
    ),
)

_ENVELOPE: Final = (
    Reason(
        "Debezium names its connector and its task in headers of every record",
        field=r"header\.__debezium\.context\..*",
        holds=only_theirs,
    ),
    Reason("a message has before and after, null, as every value has", r"\(messages\)", field="before|after"),
    Reason("a truncate tells its options", op="t", field="truncate", holds=only_ours),
    Reason(
        "a table without a key has no tombstones: they would be of no row",
        "fully_keyless",
        "tombstone",
        "record",
    ),
    Reason(
        "the key is the replica identity's; Debezium's the primary key, of which the server sends nothing",
        "indexed",
        field=r"key|before\.id|header\..*",
    ),
    Reason(
        "the key is in table order; Debezium's in the primary key's, so the bytes differ",
        "paired",
        field=r"key|header\..*",
    ),
    Reason(
        "before has what the server sent, the key; Debezium adds null or a default for every other column",
        op="d",
        field=r"before\..*",
        holds=only_theirs,
    ),
    Reason(
        "NULL stays null; Debezium writes the default of a column that has one",
        "defaulted",
        field=r"after\.name",
        holds=lambda ours, theirs: ours is None and theirs == "none",
    ),
    Reason(
        "one id for all of a transaction; Debezium's ends with the LSN before each record",
        field=r"transaction\.id|(key\.)?id",
    ),
    Reason("two tables, two topics", "a b", field="topic"),
)

_UNCHANGED: Final = (
    Reason(
        "Debezium writes null for an unchanged numeric", "toasted", field=r"after\.number", holds=null_there
    ),
    Reason(
        "one placeholder for every type, a string; Debezium's is of the column's own type",
        "toasted",
        field=r"after\.\w+",
    ),
)

_TYPES: Final = (
    types(
        "Debezium leaves out columns of types that it does not know",
        r"jsonpath|pg_lsn|tid|c?xid8?|cid|pg_snapshot|txid_snapshot|refcursor|\w+multirange|place|interval_array|tsquery",
        only_ours,
    ),
    types("Debezium writes null for values that it cannot read", "name|mood_array", null_there),
    types("Debezium empties vectors", "(int2|oid)vector"),
    types("Debezium loses arrays of more than one dimension", "(int|text)_array"),
    types("NaN and infinities stay themselves", r"numeric(_10_2)?|date|timestamp", _not_finite),
    types("Debezium's largest timestamp overflows", "timestamp", lambda ours, theirs: isinstance(ours, int)),
    types(
        "numeric keeps the digits behind the point; Debezium drops zeros at the end", "numeric", _same_number
    ),
    types("Debezium reads a negative scale as 2046", "numeric_5_2"),
    types("money is its digits; Debezium writes base64 at scale 2", "money"),
    types(
        "times are microseconds whatever the precision; Debezium's of 3 digits or fewer are milliseconds",
        r"time_3|timestamp_[03]",
        _thousandth,
    ),
    types("timetz is microseconds of the day in UTC; Debezium writes a string", "timetz"),
    types(
        "timestamptz has the digits that it has, and BC as Postgres writes it; Debezium pads to six",
        "timestamptz",
    ),
    types(
        "intervals are as short as ISO 8601 allows",
        "interval",
        lambda ours, theirs: "nfinity" not in str(ours),
    ),
    types("an infinite interval stays one; Debezium writes zero", "interval"),
    types(
        "bits are a string of 0 and 1; Debezium writes base64, lowest bits first, and drops zeros",
        "bit_9|varbit",
    ),
    types(
        "Postgres's own text; Debezium writes members and well-known binary",
        "point|line|lseg|box|path|polygon|circle",
    ),
    types("the shortest digits of a float4; Debezium prints more", "float4"),
)

_KEYS: Final = (
    Reason(
        "a key is written as its value is, and only what JSON demands is escaped: such keys have other bytes",
        r"key_(name|varchar_9|numeric|float8|timestamp_3|timestamptz|bit_3)",
        field="key",
    ),
)

_TRANSACTIONS: Final = (
    Reason("ours adds the commit's LSN", r"\(transactions\)", field="commit_lsn", holds=only_ours),
    Reason(
        "messages are counted as message; Debezium's name is an object's in Java",
        r"\(transactions\)",
        field=r"data_collections\.(message|.*LogicalDecodingMessageId@\w+)",
    ),
)

REASONS: Final = (*_SOURCE, *_ENVELOPE, *_UNCHANGED, *_TYPES, *_KEYS, *_TRANSACTIONS)
