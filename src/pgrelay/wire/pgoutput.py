"""The messages of pgoutput, protocol versions 1 to 4.

Formats: PostgreSQL manual, "Logical Replication Message Formats". Each message is a frozen dataclass with
its parse beside it, field by field in the manual's order. Between StreamStart and StreamStop the messages
Relation, Type, Insert, Update, Delete, Truncate and Message carry the id of their (sub)transaction first;
`xid` is None outside. Times are microseconds since 1970-01-01 UTC, LSNs are ints.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pgrelay.errors import ProtocolError
from pgrelay.wire import tags
from pgrelay.wire.cursor import Cursor
from pgrelay.wire.transactions import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Prepare,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from pgrelay.wire.tuples import TupleData

KEY_TUPLE: Final = ord("K")
OLD_TUPLE: Final = ord("O")
NEW_TUPLE: Final = ord("N")


@dataclass(frozen=True, slots=True)
class Origin:
    """The node on which the transaction was first committed; it never has an xid prefix."""

    commit_lsn: int
    name: str

    @classmethod
    def parse(cls, cursor: Cursor) -> "Origin":
        return cls(cursor.u64("commit LSN"), cursor.string("origin name"))


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """`key`: the column belongs to the replica identity; under FULL every column does."""

    key: bool
    name: str
    type_oid: int
    typmod: int


@dataclass(frozen=True, slots=True)
class Relation:
    """`replica_identity` is pg_class.relreplident: d default, n nothing, f full, i index."""

    xid: int | None
    oid: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Relation":
        oid, namespace, name = _read_relation_name(cursor)
        identity = cursor.u8("replica identity")
        if identity not in b"dnfi":
            raise ProtocolError(
                f"Relation {f'{namespace}.{name}'!r} has an unknown replica identity {chr(identity)!r} "
                f"at offset {cursor.pos - 1}"
            )
        columns = tuple(
            RelationColumn(
                cursor.u8("column flags") & 1 != 0,
                cursor.string("column name"),
                cursor.u32("type OID"),
                cursor.i32("type modifier"),
            )
            for _ in range(cursor.require_nonnegative(cursor.i16("number of columns"), "columns"))
        )
        return cls(xid, oid, namespace, name, chr(identity), columns)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def _read_relation_name(cursor: Cursor) -> tuple[int, str, str]:
    """The OID, schema and name with which a Relation begins."""
    oid = cursor.u32("relation OID")
    # An empty namespace stands for pg_catalog.
    namespace = cursor.string("namespace") or "pg_catalog"
    return oid, namespace, cursor.string("relation name")


@dataclass(frozen=True, slots=True)
class Type:
    """A type that is not built in. For a domain, `oid` is the domain's and `name` its base type's."""

    xid: int | None
    oid: int
    namespace: str
    name: str

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Type":
        oid = cursor.u32("type OID")
        return cls(xid, oid, cursor.string("namespace") or "pg_catalog", cursor.string("type name"))


@dataclass(frozen=True, slots=True)
class Insert:
    xid: int | None
    relation_oid: int
    new: TupleData

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Insert":
        oid = cursor.u32("relation OID")
        _expect(cursor, NEW_TUPLE)
        return cls(xid, oid, TupleData.read(cursor))


@dataclass(frozen=True, slots=True)
class Update:
    """`old` is the old key if `old_is_key`, else the whole old row; None if the server sent none."""

    xid: int | None
    relation_oid: int
    old_is_key: bool
    old: TupleData | None
    new: TupleData

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Update":
        oid = cursor.u32("relation OID")
        kind, old = cursor.u8("tuple kind"), None
        if kind in (KEY_TUPLE, OLD_TUPLE):
            old = TupleData.read(cursor)
            _expect(cursor, NEW_TUPLE)
        elif kind != NEW_TUPLE:
            raise _unknown_tuple(cursor, kind)
        return cls(xid, oid, kind == KEY_TUPLE, old, TupleData.read(cursor))


@dataclass(frozen=True, slots=True)
class Delete:
    """`old` is the old key if `old_is_key`, else the whole old row."""

    xid: int | None
    relation_oid: int
    old_is_key: bool
    old: TupleData

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Delete":
        oid = cursor.u32("relation OID")
        kind = cursor.u8("tuple kind")
        if kind not in (KEY_TUPLE, OLD_TUPLE):
            raise _unknown_tuple(cursor, kind)
        return cls(xid, oid, kind == KEY_TUPLE, TupleData.read(cursor))


@dataclass(frozen=True, slots=True)
class Truncate:
    xid: int | None
    cascade: bool
    restart_identity: bool
    relation_oids: tuple[int, ...]

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Truncate":
        count = cursor.require_nonnegative(cursor.i32("number of relations"), "relations")
        flags = cursor.u8("options")
        oids = tuple(cursor.u32("relation OID") for _ in range(count))
        return cls(xid, flags & 1 != 0, flags & 2 != 0, oids)


@dataclass(frozen=True, slots=True)
class Message:
    """A logical message, from pg_logical_emit_message. `lsn` is where its WAL record ends."""

    xid: int | None
    transactional: bool
    lsn: int
    prefix: str
    content: bytes

    @classmethod
    def parse(cls, cursor: Cursor, xid: int | None) -> "Message":
        transactional = cursor.u8("flags") & 1 != 0
        lsn = cursor.u64("message LSN")
        prefix = cursor.string("prefix")
        return cls(xid, transactional, lsn, prefix, cursor.take(cursor.i32("content length"), "content"))


PgoutputMessage = (
    Begin
    | Commit
    | Origin
    | Relation
    | Type
    | Insert
    | Update
    | Delete
    | Truncate
    | Message
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | BeginPrepare
    | Prepare
    | CommitPrepared
    | RollbackPrepared
    | StreamPrepare
)


def _expect(cursor: Cursor, wanted: int) -> None:
    kind = cursor.u8("tuple kind")
    if kind != wanted:
        raise _unknown_tuple(cursor, kind)


def _unknown_tuple(cursor: Cursor, kind: int) -> ProtocolError:
    return ProtocolError(
        f"{cursor.message} has a tuple of unexpected kind {chr(kind)!r} at offset {cursor.pos - 1}"
    )


# Messages that carry an xid prefix inside a stream, and those that never do.
_PREFIXED: Final[dict[int, tuple[str, Callable[[Cursor, int | None], PgoutputMessage]]]] = {
    tags.RELATION: ("Relation", Relation.parse),
    tags.TYPE: ("Type", Type.parse),
    tags.INSERT: ("Insert", Insert.parse),
    tags.UPDATE: ("Update", Update.parse),
    tags.DELETE: ("Delete", Delete.parse),
    tags.TRUNCATE: ("Truncate", Truncate.parse),
    tags.MESSAGE: ("Message", Message.parse),
}
_UNPREFIXED: Final[dict[int, tuple[str, Callable[[Cursor], PgoutputMessage]]]] = {
    tags.BEGIN: ("Begin", Begin.parse),
    tags.COMMIT: ("Commit", Commit.parse),
    tags.ORIGIN: ("Origin", Origin.parse),
    tags.STREAM_START: ("StreamStart", StreamStart.parse),
    tags.STREAM_STOP: ("StreamStop", StreamStop.parse),
    tags.STREAM_COMMIT: ("StreamCommit", StreamCommit.parse),
    tags.STREAM_ABORT: ("StreamAbort", StreamAbort.parse),
    tags.BEGIN_PREPARE: ("BeginPrepare", BeginPrepare.parse),
    tags.PREPARE: ("Prepare", Prepare.parse),
    tags.COMMIT_PREPARED: ("CommitPrepared", CommitPrepared.parse),
    tags.ROLLBACK_PREPARED: ("RollbackPrepared", RollbackPrepared.parse),
    tags.STREAM_PREPARE: ("StreamPrepare", StreamPrepare.parse),
}


def parse(data: bytes, in_stream: bool = False, start: int = 0) -> PgoutputMessage:
    """Read the message that begins at `start` and runs to the end of `data`.

    `in_stream`: it came between StreamStart and StreamStop. Raises ProtocolError, naming message and offset,
    on truncated, oversized or unknown bytes.
    """
    if start >= len(data):
        raise ProtocolError("an empty message has no tag")
    tag = data[start]
    if tag in _PREFIXED:
        name, parse_prefixed = _PREFIXED[tag]
        cursor = Cursor(name, data, start + 1)
        xid = cursor.u32("transaction id") if in_stream else None
        message = parse_prefixed(cursor, xid)
    elif tag in _UNPREFIXED:
        name, parse_unprefixed = _UNPREFIXED[tag]
        cursor = Cursor(name, data, start + 1)
        message = parse_unprefixed(cursor)
    else:
        raise ProtocolError(f"unknown message tag {chr(tag)!r}: pgrelay knows pgoutput versions 1 to 4")
    cursor.require_end()
    return message


def relation_name(body: bytes) -> tuple[str, str]:
    """Schema and name of a Relation message without its tag and xid; its columns are not read."""
    _, namespace, name = _read_relation_name(Cursor("Relation", body, 0))
    return namespace, name


def parse_relation(body: bytes) -> Relation:
    """Read a Relation message that is given without its tag and xid. Raises ProtocolError as `parse` does."""
    cursor = Cursor("Relation", body, 0)
    relation = Relation.parse(cursor, xid=None)
    cursor.require_end()
    return relation
