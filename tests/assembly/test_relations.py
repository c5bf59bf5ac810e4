"""Which Relation of a table holds if streamed and other transactions describe it at the same time.

No lock prevents this: a new column list, or a renamed schema, changes a table's Relation while
transactions with rows of it are open.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import ProtocolError
from pgrelay.wire import tags
from pgrelay.wire.replication import HEADER_SIZE, STREAMED_BODY_AT
from tests.assembly.transactions import ORDERS, UNLIMITED, commit, events, segment
from tests.wire import build
from tests.wire.build import xlog_data


@pytest.fixture
def assembler(tmp_path: Path) -> Iterator[Assembler]:
    spool = Spool(tmp_path)
    assembler = Assembler(spool, PreparedStore(spool), UNLIMITED)
    yield assembler
    assembler.close()


def relation(column: str, xid: int | None = None) -> bytes:
    return xlog_data(build.relation(ORDERS, "public", "orders", "d", [build.Column(column)], xid))


def plain(xid: int, commit_lsn: int, *frames: bytes) -> list[bytes]:
    begin = xlog_data(build.begin(commit_lsn, xid=xid), 0x200)
    return [begin, *frames, xlog_data(build.commit(commit_lsn, commit_lsn + 0x30), commit_lsn + 0x30)]


def prepared(xid: int, row: bytes) -> list[bytes]:
    ids = 0xE00, 0xE30, xid, "g"
    commit_prepared = xlog_data(build.commit_prepared(0xF00, 0xF30, xid, "g"), 0xF30)
    return [
        xlog_data(build.begin_prepare(*ids), 0x300),
        row,
        xlog_data(build.prepare(*ids), 0xE30),
        commit_prepared,
    ]


def known(assembler: Assembler, frames: list[bytes]) -> str:
    """The column name with which a row after these frames is read."""
    columns = [event for event in events(assembler, frames) if isinstance(event, bytes)]
    relations = [event for event in columns if event[HEADER_SIZE] == tags.RELATION]
    return next(
        name for name in ("older", "newer", "newest") if relations[-1].find(b"\0%b\0" % name.encode()) > 0
    )


def test_a_relation_newer_than_a_streams_holds_after_its_commit(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newer"
    row = xlog_data(build.insert(ORDERS, ["1"]), 0xD00)
    assert known(assembler, prepared(733, row)) == "newer"


def test_a_relation_older_than_a_streams_is_replaced_at_its_commit(assembler: Assembler) -> None:
    frames = [
        *plain(732, 0x900, relation("older")),
        *segment(731, relation("newer", 731)),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newer"


@pytest.mark.parametrize("order", [(731, 732), (732, 731)])
def test_of_two_streams_the_relation_sent_last_holds_in_any_commit_order(
    assembler: Assembler, order: tuple[int, int]
) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *segment(732, relation("newer", 732)),
        *(commit(xid, 0x900 + number * 0x100) for number, xid in enumerate(order)),
    ]
    assert known(assembler, frames) == "newer"


def test_a_relation_that_a_stream_sends_again_is_the_newest(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        *segment(731, relation("newest", 731), first=False),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newest"


def test_a_relation_sent_again_in_a_rolled_back_savepoint_does_not_count(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        *segment(731, relation("newest", 733), first=False),
        xlog_data(build.stream_abort(731, 733), 0x950),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newer"


def test_an_older_streams_commit_does_not_replace_a_newer_streams_relation(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        *segment(733, relation("newest", 733)),
        commit(731, 0xA00),
        commit(733, 0xB00),
    ]
    assert known(assembler, frames) == "newest"


def test_a_relation_in_a_stream_without_an_oid_is_refused(assembler: Assembler) -> None:
    cut = relation("older", 731)[: STREAMED_BODY_AT + 2]
    with pytest.raises(ProtocolError, match="message 'R' is truncated"):
        events(assembler, segment(731, cut))
