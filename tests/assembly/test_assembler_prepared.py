"""Two-phase transactions: on disk from PREPARE TRANSACTION on, delivered at COMMIT PREPARED."""

import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import Event, TransactionBegin, TransactionEnd, Watermark
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import GapError, ProtocolError, SpoolError, Verdict, verdict
from tests.assembly.transactions import UNLIMITED, events, transactions
from tests.wire import build
from tests.wire.build import NOON, xlog_data

ORDERS = 16384
ITEMS = 16385
BEGIN = xlog_data(build.begin_prepare(0x800, 0x830, 731, "order-7"), 0x100)
PREPARE = xlog_data(build.prepare(0x800, 0x830, 731, "order-7"), 0x830)
COMMIT = xlog_data(build.commit_prepared(0x900, 0x930, 731, "order-7"), 0x930)
ROLLBACK = xlog_data(build.rollback_prepared(0x830, 0x930, 731, "order-7"), 0x930)
TYPE = xlog_data(build.type_(16400, "public", "mood"))


class Connections:
    """One spool directory; each connection begins with nothing but what is on disk."""

    def __init__(self, directory: Path) -> None:
        self.spool = Spool(directory)
        self.current = self._assembler(UNLIMITED)

    def _assembler(self, memory_limit: int, two_phase: bool = True) -> Assembler:
        store = PreparedStore(self.spool)
        list(store.load())
        return Assembler(self.spool, store, memory_limit, two_phase)

    def reconnect(self, memory_limit: int = UNLIMITED, two_phase: bool = True) -> None:
        self.current.close()
        self.current = self._assembler(memory_limit, two_phase)

    def events(self, *frames: bytes) -> list[Event]:
        return events(self.current, list(frames))

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.spool.directory.iterdir())


@pytest.fixture
def connection(tmp_path: Path) -> Connections:
    return Connections(tmp_path)


def insert(number: int, table: int = ORDERS, xid: int | None = None) -> bytes:
    return xlog_data(build.insert(table, [str(number)], xid), 0x100 + number)


def relation(column: str = "id", table: int = ORDERS, xid: int | None = None) -> bytes:
    return xlog_data(build.relation(table, "public", f"table_{table}", "d", [build.Column(column)], xid))


def streamed(*frames: bytes, first: bool = True) -> list[bytes]:
    return [xlog_data(build.stream_start(731, first), 0x100), *frames, xlog_data(build.stream_stop())]


STREAM_PREPARE = xlog_data(build.stream_prepare(0x800, 0x830, 731, "order-7"), 0x830)


# --- On stable storage


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the spool's file at each fsync."""
    sizes: list[int] = []

    def sync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", sync)
    return sizes


_MEMORY = 1_000


@pytest.mark.parametrize("way", ["at once", "streamed"])
def test_rows_are_synced_as_they_come_so_little_is_left_at_prepare(
    connection: Connections, synced: list[int], way: str
) -> None:
    """A single large fsync would hold up everything else."""
    connection.reconnect(_MEMORY)
    if way == "at once":
        connection.events(BEGIN, *[insert(number) for number in range(200)], PREPARE)
    else:
        rows = [insert(number, xid=731) for number in range(200)]
        connection.events(*streamed(*rows), STREAM_PREPARE)
    *frames, _ = synced
    assert frames[-1] > 5 * _MEMORY
    steps = [after - before for before, after in pairwise([0, *frames])]
    assert max(steps) < 2 * _MEMORY


def test_a_small_prepared_transaction_is_synced_once(connection: Connections, synced: list[int]) -> None:
    connection.events(BEGIN, insert(1), PREPARE)
    frames, _ = synced
    assert frames > 0


def test_without_two_phase_nothing_is_synced(connection: Connections, synced: list[int]) -> None:
    connection.reconnect(_MEMORY, two_phase=False)
    rows = [insert(number, xid=731) for number in range(200)]
    connection.events(*streamed(*rows), xlog_data(build.stream_commit(731, 0x830, 0x860)))
    assert synced == []


# --- Prepared, then committed


def test_a_prepare_reaches_its_end_lsn(connection: Connections) -> None:
    """Its rows are on disk by then, so its end may be confirmed."""
    assert connection.events(BEGIN, insert(1), PREPARE) == [Watermark(0x830)]
    assert connection.files == ["731-0000000000000830.frames", "731-0000000000000830.prepared"]
    assert connection.spool.on_disk == 0


def test_commit_prepared_delivers_it_as_a_scoped_transaction(connection: Connections) -> None:
    connection.events(relation())
    connection.events(BEGIN, insert(1), insert(2), PREPARE)
    assert connection.events(COMMIT) == [
        TransactionBegin(731, commit_lsn=0x900, commit_us=NOON, scoped=True),
        relation(),
        insert(1),
        insert(2),
        TransactionEnd(0x930),
    ]


def test_other_transactions_come_out_between_prepare_and_commit(connection: Connections) -> None:
    connection.events(BEGIN, insert(1), PREPARE)
    between = connection.events(
        xlog_data(build.begin(0x850, xid=732), 0x140), insert(2), xlog_data(build.commit(0x850, 0x880), 0x880)
    )
    assert [it.begin.xid for it in transactions(between)] == [732]
    assert [it.begin.xid for it in transactions(connection.events(COMMIT))] == [731]


def test_a_relation_before_prepare_is_passed_on_at_once(connection: Connections) -> None:
    """The server will not repeat it for the transactions that follow, whatever becomes of this one."""
    assert connection.events(BEGIN, TYPE, relation(), insert(1), PREPARE) == [
        TYPE,
        relation(),
        Watermark(0x830),
    ]


def test_an_empty_prepared_transaction_is_delivered(connection: Connections) -> None:
    """The server skips empty transactions, but not prepared ones."""
    assert connection.events(BEGIN, PREPARE, COMMIT) == [
        Watermark(0x830),
        TransactionBegin(731, 0x900, NOON, scoped=True),
        TransactionEnd(0x930),
    ]


def test_a_prepare_without_begin_is_an_empty_transaction(connection: Connections) -> None:
    """PostgreSQL 18 sends this for a transaction with nothing to decode, such as only a lock."""
    assert connection.events(PREPARE) == [Watermark(0x830)]
    assert connection.events(COMMIT) == [
        TransactionBegin(731, commit_lsn=0x900, commit_us=NOON, scoped=True),
        TransactionEnd(0x930),
    ]


def test_a_keepalive_inside_a_prepared_transaction_reaches_nothing(connection: Connections) -> None:
    """What was sent before the keepalive is not on disk yet."""
    assert connection.events(BEGIN, build.keepalive(0x840), PREPARE, build.keepalive(0x850)) == [
        Watermark(0x830),
        Watermark(0x850),
    ]


def test_commit_prepared_is_replayed_in_slices(connection: Connections) -> None:
    connection.events(BEGIN, insert(1), insert(2), PREPARE)
    assembler = connection.current
    assert assembler.receive_all([COMMIT, build.keepalive(0x950)], 0) == 1
    assembler.take_events()
    assembler.replay(1)
    assert assembler.take_events() == [insert(1)]
    assembler.replay(1)
    assert assembler.take_events() == [insert(2)]
    assembler.replay(1)
    assert assembler.take_events() == [TransactionEnd(0x930)]


# --- Streamed, then prepared


def test_a_streamed_prepare_leaves_out_aborted_changes(connection: Connections) -> None:
    frames = [
        *streamed(relation(xid=731), insert(1, xid=731), insert(2, xid=732)),
        xlog_data(build.stream_abort(731, 732), 0x700),
        *streamed(insert(3, xid=731), first=False),
        STREAM_PREPARE,
    ]
    assert connection.events(*frames) == [Watermark(0x830)]
    connection.reconnect()
    assert connection.events(COMMIT) == [
        TransactionBegin(731, 0x900, NOON, streamed=True, scoped=True),
        relation(xid=731),
        insert(1, xid=731),
        insert(3, xid=731),
        TransactionEnd(0x930),
    ]


# --- Across a restart


def test_a_restart_between_prepare_and_commit_loses_nothing(connection: Connections) -> None:
    connection.events(BEGIN, relation(), insert(1), PREPARE)
    connection.reconnect()
    assert [it.frames for it in transactions(connection.events(COMMIT))] == [[insert(1)]]


def test_relations_that_rows_need_are_kept_with_them(connection: Connections) -> None:
    """They came in an earlier transaction, and the next connection has none of them."""
    connection.events(relation(), relation(table=ITEMS), relation(table=16386))
    truncate = xlog_data(build.truncate([ITEMS]), 0x102)
    connection.events(BEGIN, insert(1), truncate, PREPARE)
    connection.reconnect()
    out = connection.events(COMMIT)
    assert out[1:-1] == [relation(table=ITEMS), relation(), insert(1), truncate]


def test_each_row_keeps_the_relation_that_preceded_it(connection: Connections) -> None:
    """ALTER TABLE inside the transaction describes only the rows after it."""
    connection.events(relation("before"))
    connection.events(BEGIN, insert(1), relation("after"), insert(2), PREPARE)
    connection.reconnect()
    assert connection.events(COMMIT)[1:-1] == [relation("before"), insert(1), relation("after"), insert(2)]


def test_a_relation_from_a_committed_stream_is_kept_with_rows(connection: Connections) -> None:
    connection.events(
        relation("before"),
        xlog_data(build.stream_start(700), 0x100),
        relation("after", xid=700),
        xlog_data(build.stream_stop()),
        xlog_data(build.stream_commit(700, 0x600, 0x630), 0x630),
    )
    connection.events(BEGIN, insert(1), PREPARE)
    connection.reconnect()
    assert connection.events(COMMIT)[1:-1] == [relation("after"), insert(1)]


def test_a_relation_from_a_rolled_back_stream_is_not_kept_with_rows(connection: Connections) -> None:
    connection.events(
        relation("before"),
        *streamed(relation("dropped", xid=732), relation("dropped", xid=731)),
        xlog_data(build.stream_abort(731, 732), 0x600),
        xlog_data(build.stream_abort(731), 0x600),
    )
    connection.events(BEGIN, insert(1), PREPARE)
    assert connection.events(COMMIT)[1:-1] == [relation("before"), insert(1)]


def test_a_commit_prepared_sent_again_is_delivered_again(connection: Connections) -> None:
    """Until it is confirmed the server repeats it, but not its rows."""
    connection.events(BEGIN, insert(1), PREPARE)
    once = connection.events(COMMIT)
    connection.reconnect()
    assert connection.events(COMMIT) == once


def test_a_prepare_sent_again_replaces_the_first(connection: Connections) -> None:
    connection.events(BEGIN, insert(1), PREPARE)
    connection.reconnect()
    assert connection.events(*streamed(insert(1, xid=731)), STREAM_PREPARE) == [Watermark(0x830)]
    connection.reconnect()
    assert connection.events(COMMIT)[1:-1] == [insert(1, xid=731)]


@pytest.mark.parametrize("end", [COMMIT, ROLLBACK], ids=["committed", "rolled back"])
def test_a_prepared_transaction_streamed_once_more_is_not_kept_twice(
    connection: Connections, end: bytes
) -> None:
    """After a reconnect the server may do so, and then sends no second StreamPrepare."""
    connection.events(BEGIN, insert(1), PREPARE)
    connection.reconnect(memory_limit=0)
    start, stop = xlog_data(build.stream_start(731, first=True)), xlog_data(build.stream_stop())
    assert connection.events(start, insert(1, xid=731), stop) == []
    frames = [frame for each in transactions(connection.events(end)) for frame in each.frames]
    assert frames == ([insert(1)] if end == COMMIT else [])
    assert connection.current.open_transactions() == []
    assert connection.spool.on_disk == 0


def test_a_prepare_cut_off_by_the_connection_leaves_nothing(connection: Connections) -> None:
    connection.reconnect(memory_limit=0)
    connection.events(BEGIN, insert(1))
    assert connection.files == ["731-prepare.spool"]
    connection.reconnect()
    assert connection.files == []


def test_a_prepare_that_is_rolled_back_is_never_delivered(connection: Connections) -> None:
    """The server sends only a part if the transaction was rolled back meanwhile."""
    assert connection.events(BEGIN, insert(1), PREPARE, ROLLBACK) == [Watermark(0x830), Watermark(0x930)]


# --- Rolled back


def test_rollback_prepared_removes_the_files(connection: Connections) -> None:
    connection.events(BEGIN, insert(1), PREPARE)
    assert connection.events(ROLLBACK) == [Watermark(0x930)]
    assert connection.files == []


def test_rollback_of_an_unknown_prepared_transaction_is_ignored(connection: Connections) -> None:
    assert connection.events(ROLLBACK) == [Watermark(0x930)]


# --- What must not go unnoticed


def test_commit_prepared_without_its_rows_is_a_gap(connection: Connections) -> None:
    with pytest.raises(GapError) as caught:
        connection.events(COMMIT)
    assert str(caught.value) == (
        "COMMIT PREPARED of 'order-7' (xid 731) at 0/900, but its rows are not in "
        f"{connection.spool.directory}: with two-phase commit, transactions.spool_dir must survive restarts; "
        "restore it, or copy the tables again"
    )
    assert verdict(caught.value) is Verdict.STOP


def test_commit_prepared_without_rows_is_no_gap_if_already_delivered(connection: Connections) -> None:
    """As after the promotion of a standby whose slot is further back than its primary's was."""
    connection.current.note_delivered(0x92F)
    with pytest.raises(GapError):
        connection.events(COMMIT)
    connection.current.note_delivered(0x930)
    assert connection.events(COMMIT) == [Watermark(0x930)]


@pytest.mark.parametrize(("xid", "gid"), [(731, "order-8"), (732, "order-7")])
def test_a_prepared_transaction_is_found_by_xid_and_gid_together(
    connection: Connections, xid: int, gid: str
) -> None:
    connection.events(BEGIN, insert(1), PREPARE)
    with pytest.raises(GapError):
        connection.events(xlog_data(build.commit_prepared(0x900, 0x930, xid, gid), 0x930))


def test_damaged_rows_stop_the_replay(connection: Connections) -> None:
    connection.events(BEGIN, insert(1), PREPARE)
    (connection.spool.directory / "731-0000000000000830.frames").write_bytes(b"")
    with pytest.raises(GapError, match=r"830\.frames: the file ends too early"):
        connection.events(COMMIT)


def test_a_full_disk_at_prepare_confirms_nothing(connection: Connections) -> None:
    (connection.spool.directory / "731-prepare.spool").symlink_to("/dev/full")
    with pytest.raises(SpoolError, match=r"731-prepare\.spool: No space left on device"):
        connection.events(BEGIN, insert(1), PREPARE)
    assert connection.current.take_events() == []
    connection.reconnect()
    assert connection.files == []
    assert connection.spool.on_disk == 0


def test_a_full_disk_at_stream_prepare_confirms_nothing(connection: Connections) -> None:
    (connection.spool.directory / "731.spool").symlink_to("/dev/full")
    with pytest.raises(SpoolError, match=r"731\.spool: No space left on device"):
        connection.events(*streamed(insert(1, xid=731)), STREAM_PREPARE)
    assert connection.current.take_events() == []
    connection.reconnect()
    assert connection.files == []


@pytest.mark.parametrize("tag", "IUDT")
def test_a_change_too_short_for_its_relation_oid_is_refused(connection: Connections, tag: str) -> None:
    with pytest.raises(ProtocolError, match=r"truncated.*\(LSN 16/B374D848\)"):
        connection.events(BEGIN, xlog_data(tag.encode() + b"\0\0\0", 0x16B374D848))
    connection.reconnect()
