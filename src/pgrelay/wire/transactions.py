"""pgoutput's messages about transactions: begin, commit, stream segments, aborts and two-phase commit.

Formats: PostgreSQL manual, "Logical Replication Message Formats". Times are microseconds since 1970-01-01
UTC. The LSN to confirm to the server is always `end_lsn`; `commit_lsn` orders transactions.
"""

from dataclasses import dataclass

from pgrelay.lsn import unix_us
from pgrelay.wire.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: int
    commit_us: int
    xid: int

    @classmethod
    def parse(cls, cursor: Cursor) -> "Begin":
        return cls(cursor.u64("final LSN"), unix_us(cursor.i64("commit time")), cursor.u32("transaction id"))


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    commit_us: int

    @classmethod
    def parse(cls, cursor: Cursor) -> "Commit":
        cursor.require_no_flags()
        return cls(cursor.u64("commit LSN"), cursor.u64("end LSN"), unix_us(cursor.i64("commit time")))


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Opens one segment of a transaction that has not committed yet."""

    xid: int
    first: bool

    @classmethod
    def parse(cls, cursor: Cursor) -> "StreamStart":
        return cls(cursor.u32("transaction id"), cursor.u8("first segment") == 1)


@dataclass(frozen=True, slots=True)
class StreamStop:
    @classmethod
    def parse(cls, cursor: Cursor) -> "StreamStop":
        return cls()


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: int
    end_lsn: int
    commit_us: int

    @classmethod
    def parse(cls, cursor: Cursor) -> "StreamCommit":
        xid = cursor.u32("transaction id")
        cursor.require_no_flags()
        return cls(xid, cursor.u64("commit LSN"), cursor.u64("end LSN"), unix_us(cursor.i64("commit time")))


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """Drops the subtransaction `subxid` of `xid`, or the whole transaction if the two are equal.

    `abort_lsn` and `abort_us` come only with `streaming 'parallel'`; the LSN may be 0 after a crash.
    """

    xid: int
    subxid: int
    abort_lsn: int | None = None
    abort_us: int | None = None

    @classmethod
    def parse(cls, cursor: Cursor) -> "StreamAbort":
        xid, subxid = cursor.u32("transaction id"), cursor.u32("subtransaction id")
        if cursor.pos == len(cursor.data):
            return cls(xid, subxid)
        return cls(xid, subxid, cursor.u64("abort LSN"), unix_us(cursor.i64("abort time")))


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    prepare_lsn: int
    end_lsn: int
    prepare_us: int
    xid: int
    gid: str

    @classmethod
    def parse(cls, cursor: Cursor) -> "BeginPrepare":
        return cls(
            cursor.u64("prepare LSN"),
            cursor.u64("end LSN"),
            unix_us(cursor.i64("prepare time")),
            cursor.u32("transaction id"),
            cursor.string("gid"),
        )


@dataclass(frozen=True, slots=True)
class Prepare:
    prepare_lsn: int
    end_lsn: int
    prepare_us: int
    xid: int
    gid: str

    @classmethod
    def parse(cls, cursor: Cursor) -> "Prepare":
        cursor.require_no_flags()
        return cls(
            cursor.u64("prepare LSN"),
            cursor.u64("end LSN"),
            unix_us(cursor.i64("prepare time")),
            cursor.u32("transaction id"),
            cursor.string("gid"),
        )


@dataclass(frozen=True, slots=True)
class StreamPrepare(Prepare):
    """The end of a streamed transaction that is prepared instead of committed."""


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: int
    end_lsn: int
    commit_us: int
    xid: int
    gid: str

    @classmethod
    def parse(cls, cursor: Cursor) -> "CommitPrepared":
        cursor.require_no_flags()
        return cls(
            cursor.u64("commit LSN"),
            cursor.u64("end LSN"),
            unix_us(cursor.i64("commit time")),
            cursor.u32("transaction id"),
            cursor.string("gid"),
        )


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: int
    end_lsn: int
    prepare_us: int
    rollback_us: int
    xid: int
    gid: str

    @classmethod
    def parse(cls, cursor: Cursor) -> "RollbackPrepared":
        cursor.require_no_flags()
        return cls(
            cursor.u64("prepare end LSN"),
            cursor.u64("rollback end LSN"),
            unix_us(cursor.i64("prepare time")),
            unix_us(cursor.i64("rollback time")),
            cursor.u32("transaction id"),
            cursor.string("gid"),
        )
