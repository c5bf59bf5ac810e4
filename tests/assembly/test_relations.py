"""Which Relation of a table holds, where streamed transactions and others describe it side by side.

No lock keeps them apart: another column list, or another name of the schema, changes a table's Relation while
transactions that have rows of it are open.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import ProtocolError
from pgrelay.wire import tags
from pgrelay.wire.replication import HEADER_SIZE, STREAMED_BODY
from tests.assembly.transactions import UNLIMITED, events
from tests.wire import build
from tests.wire.build import xlog_data

ORDERS = 16384
STOP = xlog_data(build.stream_stop())


@pytest.fixture
def assembler(tmp_path: Path) -> Iterator[Assembler]:
    spool = Spool(tmp_path)
    assembler = Assembler(spool, PreparedStore(spool), UNLIMITED)
    yield assembler
    assembler.close()


def relation(column: str, xid: int | None = None) -> bytes:
    return xlog_data(build.relation(ORDERS, "public", "orders", "d", [build.Column(column)], xid))


def segment(xid: int, *frames: bytes, first: bool = True) -> list[bytes]:
    return [xlog_data(build.stream_start(xid, first), 0x100), *frames, STOP]


def commit(xid: int, commit_lsn: int) -> bytes:
    return xlog_data(build.stream_commit(xid, commit_lsn, commit_lsn + 0x30), commit_lsn + 0x30)


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
    """The column by which a row is read that follows the frames."""
    columns = [event for event in events(assembler, frames) if isinstance(event, bytes)]
    told = [event for event in columns if event[HEADER_SIZE] == tags.RELATION]
    return next(name for name in ("older", "newer", "newest") if told[-1].find(b"\0%b\0" % name.encode()) > 0)


def test_one_that_came_after_those_of_a_stream_outlives_its_commit(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newer"
    row = xlog_data(build.insert(ORDERS, ["1"]), 0xD00)
    assert known(assembler, prepared(733, row)) == "newer"


def test_one_that_came_before_those_of_a_stream_does_not(assembler: Assembler) -> None:
    frames = [
        *plain(732, 0x900, relation("older")),
        *segment(731, relation("newer", 731)),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newer"


@pytest.mark.parametrize("order", [(731, 732), (732, 731)])
def test_of_two_streams_the_one_that_came_last_holds_whichever_commits_last(
    assembler: Assembler, order: tuple[int, int]
) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *segment(732, relation("newer", 732)),
        *(commit(xid, 0x900 + number * 0x100) for number, xid in enumerate(order)),
    ]
    assert known(assembler, frames) == "newer"


def test_a_stream_that_described_it_again_since_is_the_last(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        *segment(731, relation("newest", 731), first=False),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newest"


def test_but_not_where_that_was_rolled_back(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        *segment(731, relation("newest", 733), first=False),
        xlog_data(build.stream_abort(731, 733), 0x950),
        commit(731, 0xA00),
    ]
    assert known(assembler, frames) == "newer"


def test_what_one_stream_restores_can_be_older_than_what_another_has(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation("older", 731)),
        *plain(732, 0x900, relation("newer")),
        *segment(733, relation("newest", 733)),
        commit(731, 0xA00),
        commit(733, 0xB00),
    ]
    assert known(assembler, frames) == "newest"


def test_a_relation_in_a_stream_that_has_no_oid(assembler: Assembler) -> None:
    cut = relation("older", 731)[: STREAMED_BODY + 2]
    with pytest.raises(ProtocolError, match="message 'R' is truncated"):
        events(assembler, segment(731, cut))
