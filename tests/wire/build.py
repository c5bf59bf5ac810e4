"""What the server would send, written field by field from the manual and from nothing in src.

One function a message, in the manual's order: "Logical Replication Message Formats" for pgoutput versions 1
to 4, "Streaming Replication Protocol" for what carries it. LSNs and ids are ints, times are microseconds
since 1970-01-01 UTC, and `xid=` writes the prefix that a message has between StreamStart and StreamStop.

    build.xlog_data(build.insert(16384, ["1", None, UNCHANGED, Binary(b"\\0\\1")], xid=731), lsn=0x16B3740)
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

Y2K: Final = datetime(2000, 1, 1, tzinfo=UTC)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def unix_us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


NOON: Final = unix_us(datetime(2024, 2, 29, 12, tzinfo=UTC))
"""The time of everything whose time is not the point."""

# Type OIDs, from pg_type.dat.
BOOL, BYTEA, INT8, INT4, TEXT, JSON, FLOAT8 = 16, 17, 20, 23, 25, 114, 701
DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID, JSONB = 1082, 1114, 1184, 1700, 2950, 3802


class Unchanged(Enum):
    """A TOAST value that the server did not send, because the update did not touch it."""

    UNCHANGED = "u"


UNCHANGED: Final = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class Binary:
    """A value in the type's send format, as with `binary 'true'`."""

    value: bytes


Value = str | bytes | Binary | Unchanged | None
Row = Sequence[Value]


class Column(NamedTuple):
    """`key`: part of the replica identity."""

    name: str
    type_oid: int = TEXT
    key: bool = False
    typmod: int = -1


# --- The fields


def _time(us: int) -> int:
    return us - unix_us(Y2K)


def _string(text: str | bytes) -> bytes:
    # Lone surrogates stand for the bytes of a name that is not in UTF-8.
    return (text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text) + b"\0"


def _prefix(xid: int | None) -> bytes:
    return b"" if xid is None else struct.pack("!I", xid)


def _sized(kind: bytes, value: bytes) -> bytes:
    return kind + struct.pack("!i", len(value)) + value


def _column(value: Value) -> bytes:
    if value is None:
        return b"n"
    if value is UNCHANGED:
        return b"u"
    if isinstance(value, Binary):
        return _sized(b"b", value.value)
    return _sized(b"t", value.encode() if isinstance(value, str) else value)


def tuple_data(row: Row) -> bytes:
    """TupleData: None is null, UNCHANGED an unsent TOAST value, str and bytes text, Binary binary."""
    return struct.pack("!h", len(row)) + b"".join(_column(value) for value in row)


# --- Transactions


def begin(commit_lsn: int, commit_us: int = NOON, xid: int = 700) -> bytes:
    return b"B" + struct.pack("!QqI", commit_lsn, _time(commit_us), xid)


def commit(commit_lsn: int, end_lsn: int, commit_us: int = NOON) -> bytes:
    return b"C" + struct.pack("!BQQq", 0, commit_lsn, end_lsn, _time(commit_us))


def origin(commit_lsn: int, name: str | bytes) -> bytes:
    return b"O" + struct.pack("!Q", commit_lsn) + _string(name)


# --- What a table is, and what happened to it


def relation(
    oid: int,
    namespace: str | bytes,
    name: str | bytes,
    identity: str,
    columns: Sequence[Column],
    xid: int | None = None,
) -> bytes:
    """`identity` is pg_class.relreplident: d default, n nothing, f full, i index."""
    return (
        b"R"
        + _prefix(xid)
        + struct.pack("!I", oid)
        + _string(namespace)
        + _string(name)
        + identity.encode()
        + struct.pack("!h", len(columns))
        + b"".join(
            struct.pack("!B", column.key)
            + _string(column.name)
            + struct.pack("!Ii", column.type_oid, column.typmod)
            for column in columns
        )
    )


def type_(oid: int, namespace: str | bytes, name: str | bytes, xid: int | None = None) -> bytes:
    return b"Y" + _prefix(xid) + struct.pack("!I", oid) + _string(namespace) + _string(name)


def insert(oid: int, row: Row, xid: int | None = None) -> bytes:
    return b"I" + _prefix(xid) + struct.pack("!I", oid) + b"N" + tuple_data(row)


def update(
    oid: int, new: Row, *, key: Row | None = None, old: Row | None = None, xid: int | None = None
) -> bytes:
    """`key` is the old key, sent when it changed; `old` the old row, under REPLICA IDENTITY FULL."""
    before = b"" if key is None and old is None else _before(key, old)
    return b"U" + _prefix(xid) + struct.pack("!I", oid) + before + b"N" + tuple_data(new)


def delete(oid: int, *, key: Row | None = None, old: Row | None = None, xid: int | None = None) -> bytes:
    """`key` is the deleted row's key; `old` the whole row, under REPLICA IDENTITY FULL."""
    return b"D" + _prefix(xid) + struct.pack("!I", oid) + _before(key, old)


def _before(key: Row | None, old: Row | None) -> bytes:
    if key is not None and old is None:
        return b"K" + tuple_data(key)
    if old is not None and key is None:
        return b"O" + tuple_data(old)
    raise ValueError("a key or an old row, one of the two")


def truncate(
    oids: Sequence[int], *, cascade: bool = False, restart_identity: bool = False, xid: int | None = None
) -> bytes:
    options = cascade * 1 | restart_identity * 2
    return b"T" + _prefix(xid) + struct.pack(f"!iB{len(oids)}I", len(oids), options, *oids)


def message(
    prefix: str | bytes, content: bytes, *, lsn: int = 0, transactional: bool = True, xid: int | None = None
) -> bytes:
    head = b"M" + _prefix(xid) + struct.pack("!BQ", transactional, lsn)
    return head + _string(prefix) + struct.pack("!i", len(content)) + content


# --- Streamed transactions


def stream_start(xid: int, first: bool = True) -> bytes:
    return b"S" + struct.pack("!IB", xid, first)


def stream_stop() -> bytes:
    return b"E"


def stream_commit(xid: int, commit_lsn: int, end_lsn: int, commit_us: int = NOON) -> bytes:
    return b"c" + struct.pack("!IBQQq", xid, 0, commit_lsn, end_lsn, _time(commit_us))


def stream_abort(
    xid: int, subxid: int | None = None, *, abort_lsn: int | None = None, abort_us: int | None = None
) -> bytes:
    """Of the whole transaction, unless `subxid` is given; LSN and time with `streaming 'parallel'`."""
    ids = b"A" + struct.pack("!II", xid, xid if subxid is None else subxid)
    if abort_lsn is None:
        return ids
    return ids + struct.pack("!Qq", abort_lsn, _time(NOON if abort_us is None else abort_us))


# --- Two-phase transactions


def begin_prepare(prepare_lsn: int, end_lsn: int, xid: int, gid: str, prepare_us: int = NOON) -> bytes:
    return b"b" + struct.pack("!QQqI", prepare_lsn, end_lsn, _time(prepare_us), xid) + _string(gid)


def prepare(prepare_lsn: int, end_lsn: int, xid: int, gid: str, prepare_us: int = NOON) -> bytes:
    return b"P" + _prepared(prepare_lsn, end_lsn, prepare_us, xid, gid)


def stream_prepare(prepare_lsn: int, end_lsn: int, xid: int, gid: str, prepare_us: int = NOON) -> bytes:
    return b"p" + _prepared(prepare_lsn, end_lsn, prepare_us, xid, gid)


def commit_prepared(commit_lsn: int, end_lsn: int, xid: int, gid: str, commit_us: int = NOON) -> bytes:
    return b"K" + _prepared(commit_lsn, end_lsn, commit_us, xid, gid)


def _prepared(lsn: int, end_lsn: int, us: int, xid: int, gid: str) -> bytes:
    return struct.pack("!BQQqI", 0, lsn, end_lsn, _time(us), xid) + _string(gid)


def rollback_prepared(
    prepare_end_lsn: int,
    end_lsn: int,
    xid: int,
    gid: str,
    prepare_us: int = NOON,
    rollback_us: int = NOON,
) -> bytes:
    times = _time(prepare_us), _time(rollback_us)
    return b"r" + struct.pack("!BQQqqI", 0, prepare_end_lsn, end_lsn, *times, xid) + _string(gid)


# --- Streaming replication: the CopyData that carries the above


def xlog_data(payload: bytes, lsn: int = 0, wal_end: int | None = None, sent_us: int = NOON) -> bytes:
    """In logical mode both LSNs are the same; 0 on Relation and Type."""
    end = lsn if wal_end is None else wal_end
    return b"w" + struct.pack("!QQq", lsn, end, _time(sent_us)) + payload


def keepalive(wal_end: int, reply: bool = False, sent_us: int = NOON) -> bytes:
    return b"k" + struct.pack("!QqB", wal_end, _time(sent_us), reply)
