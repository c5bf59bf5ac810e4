"""Begin to RollbackPrepared, each in the manual's layout (Logical Replication Message Formats)."""

import pytest

from pgrelay.errors import ProtocolError
from pgrelay.wire.pgoutput import parse
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
from tests.wire import build
from tests.wire.build import NOON
from tests.wire.layout import layout

ONE = NOON + 1
"""A microsecond past 2024-02-29 12:00 UTC: 0x2B582C4781001 microseconds after 2000-01-01."""


def test_begin() -> None:
    data = layout("""
        42                          Byte1('B') Identifies the message as a begin message.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The final LSN of the transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Commit timestamp of the transaction.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
    """)
    assert parse(data) == Begin(commit_lsn=0x16B3740, commit_us=ONE, xid=731)
    assert build.begin(0x16B3740, ONE, xid=731) == data


def test_commit() -> None:
    data = layout("""
        43                          Byte1('C') Identifies the message as a commit message.
        00                          Int8(0) Flags; currently unused.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the commit.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Commit timestamp of the transaction.
    """)
    assert parse(data) == Commit(commit_lsn=0x16B3740, end_lsn=0x16B3770, commit_us=ONE)
    assert build.commit(0x16B3740, 0x16B3770, ONE) == data


def test_lsns_and_xids_are_unsigned() -> None:
    assert parse(build.begin(2**64 - 1, xid=2**32 - 1)) == Begin(2**64 - 1, NOON, 2**32 - 1)


def test_times_before_the_postgres_epoch_are_negative_on_the_wire() -> None:
    data = build.begin(1, commit_us=0)
    assert data[9] == 0xFF
    assert parse(data) == Begin(1, 0, 700)


@pytest.mark.parametrize(("octet", "first"), [("01", True), ("00", False)])
def test_stream_start(octet: str, first: bool) -> None:
    data = layout(f"""
        53                          Byte1('S') Identifies the message as a stream start message.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        {octet}                     Int8 1: the first stream segment for this XID, 0: any other.
    """)
    assert parse(data) == StreamStart(xid=731, first=first)
    assert build.stream_start(731, first=first) == data


def test_stream_stop() -> None:
    data = layout("45               Byte1('E') Identifies the message as a stream stop message.")
    assert parse(data, in_stream=True) == StreamStop()
    assert build.stream_stop() == data


def test_stream_commit() -> None:
    data = layout("""
        63                          Byte1('c') Identifies the message as a stream commit message.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        00                          Int8(0) Flags; currently unused.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the commit.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Commit timestamp of the transaction.
    """)
    assert parse(data) == StreamCommit(xid=731, commit_lsn=0x16B3740, end_lsn=0x16B3770, commit_us=ONE)
    assert build.stream_commit(731, 0x16B3740, 0x16B3770, ONE) == data


def test_stream_abort() -> None:
    data = layout("""
        41                          Byte1('A') Identifies the message as a stream abort message.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        00 00 02 DD                 Int32 (TransactionId) Xid of the subtransaction.
    """)
    assert parse(data) == StreamAbort(xid=731, subxid=733, abort_lsn=None, abort_us=None)
    assert build.stream_abort(731, 733) == data


def test_stream_abort_of_a_whole_transaction_repeats_its_xid() -> None:
    assert parse(build.stream_abort(731)) == StreamAbort(xid=731, subxid=731)


def test_stream_abort_with_streaming_parallel() -> None:
    data = layout("""
        41                          Byte1('A') Identifies the message as a stream abort message.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        00 00 02 DD                 Int32 (TransactionId) Xid of the subtransaction.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the abort operation.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Abort timestamp of the transaction.
    """)
    assert parse(data) == StreamAbort(xid=731, subxid=733, abort_lsn=0x16B3740, abort_us=ONE)
    assert build.stream_abort(731, 733, abort_lsn=0x16B3740, abort_us=ONE) == data


def test_an_abort_lsn_of_zero_is_not_an_absent_one() -> None:
    assert parse(build.stream_abort(731, abort_lsn=0)) == StreamAbort(731, 731, abort_lsn=0, abort_us=NOON)


def test_begin_prepare() -> None:
    data = layout("""
        62                          Byte1('b') The beginning of a prepared transaction message.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the prepare.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the prepared transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Prepare timestamp of the transaction.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        "order-7" 00                String The user defined GID of the prepared transaction.
    """)
    assert parse(data) == BeginPrepare(0x16B3740, 0x16B3770, prepare_us=ONE, xid=731, gid="order-7")
    assert build.begin_prepare(0x16B3740, 0x16B3770, 731, "order-7", ONE) == data


def test_prepare() -> None:
    data = layout("""
        50                          Byte1('P') Identifies the message as a prepare message.
        00                          Int8(0) Flags; currently unused.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the prepare.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the prepared transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Prepare timestamp of the transaction.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        "order-7" 00                String The user defined GID of the prepared transaction.
    """)
    assert parse(data) == Prepare(0x16B3740, 0x16B3770, prepare_us=ONE, xid=731, gid="order-7")
    assert build.prepare(0x16B3740, 0x16B3770, 731, "order-7", ONE) == data


def test_commit_prepared() -> None:
    data = layout("""
        4B                          Byte1('K') The commit of a prepared transaction.
        00                          Int8(0) Flags; currently unused.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the commit of the prepared transaction.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the commit.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Commit timestamp of the transaction.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        "order-7" 00                String The user defined GID of the prepared transaction.
    """)
    assert parse(data) == CommitPrepared(0x16B3740, 0x16B3770, commit_us=ONE, xid=731, gid="order-7")
    assert build.commit_prepared(0x16B3740, 0x16B3770, 731, "order-7", ONE) == data


def test_rollback_prepared() -> None:
    data = layout("""
        72                          Byte1('r') The rollback of a prepared transaction.
        00                          Int8(0) Flags; currently unused.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The end LSN of the prepared transaction.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the rollback.
        00 02 B5 82 C4 78 10 00     Int64 (TimestampTz) Prepare timestamp of the transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Rollback timestamp of the transaction.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        "order-7" 00                String The user defined GID of the prepared transaction.
    """)
    assert parse(data) == RollbackPrepared(
        0x16B3740, 0x16B3770, prepare_us=NOON, rollback_us=ONE, xid=731, gid="order-7"
    )
    assert build.rollback_prepared(0x16B3740, 0x16B3770, 731, "order-7", NOON, ONE) == data


def test_stream_prepare() -> None:
    data = layout("""
        70                          Byte1('p') Identifies the message as a stream prepare message.
        00                          Int8(0) Flags; currently unused.
        00 00 00 00 01 6B 37 40     Int64 (XLogRecPtr) The LSN of the prepare.
        00 00 00 00 01 6B 37 70     Int64 (XLogRecPtr) The end LSN of the prepared transaction.
        00 02 B5 82 C4 78 10 01     Int64 (TimestampTz) Prepare timestamp of the transaction.
        00 00 02 DB                 Int32 (TransactionId) Xid of the transaction.
        "order-7" 00                String The user defined GID of the prepared transaction.
    """)
    assert parse(data) == StreamPrepare(0x16B3740, 0x16B3770, prepare_us=ONE, xid=731, gid="order-7")
    assert build.stream_prepare(0x16B3740, 0x16B3770, 731, "order-7", ONE) == data


def test_a_stream_prepare_does_not_equal_a_prepare() -> None:
    streamed, plain = (parse(write(1, 2, 731, "g")) for write in (build.stream_prepare, build.prepare))
    assert streamed != plain


FLAGGED: list[tuple[str, bytes, int]] = [
    ("Commit", build.commit(1, 2), 1),
    ("StreamCommit", build.stream_commit(731, 1, 2), 5),
    ("Prepare", build.prepare(1, 2, 731, "g"), 1),
    ("StreamPrepare", build.stream_prepare(1, 2, 731, "g"), 1),
    ("CommitPrepared", build.commit_prepared(1, 2, 731, "g"), 1),
    ("RollbackPrepared", build.rollback_prepared(1, 2, 731, "g"), 1),
]


@pytest.mark.parametrize(("name", "data", "offset"), FLAGGED, ids=[name for name, _, _ in FLAGGED])
def test_unused_flags_must_be_zero(name: str, data: bytes, offset: int) -> None:
    """Int8(0): no flag is defined. The server's own reader refuses any, too."""
    flagged = data[:offset] + b"\x01" + data[offset + 1 :]
    with pytest.raises(ProtocolError, match=f"^{name} has unknown flags 0x01 at offset {offset}$"):
        parse(flagged)
