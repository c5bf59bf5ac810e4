"""Transactions that arrive before they commit: interleaved, cut by aborts, spilled, replayed in slices."""

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import TransactionBegin, TransactionEnd, Watermark
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import ProtocolError, SpoolError
from tests.assembly.transactions import (
    ORDERS,
    STOP,
    UNLIMITED,
    abort,
    commit,
    events,
    insert,
    relation,
    segment,
    transactions,
)
from tests.wire import build
from tests.wire.build import NOON, xlog_data


def delivered(assembler: Assembler, frames: list[bytes]) -> list[list[bytes]]:
    """The frames of each transaction that came out."""
    return [transaction.frames for transaction in transactions(events(assembler, frames))]


# --- Before the commit and at it


def test_nothing_comes_out_before_the_commit(assembler: Assembler) -> None:
    assert events(assembler, segment(731, relation(731), insert(731, 1))) == []
    assert len(assembler.open_transactions()) == 1


def test_a_streamed_transaction_comes_out_at_its_commit(assembler: Assembler) -> None:
    frames = [
        *segment(731, relation(731), insert(731, 1)),
        *segment(731, insert(731, 2), first=False),
        commit(731),
    ]
    assert events(assembler, frames) == [
        TransactionBegin(731, commit_lsn=0x900, commit_us=NOON, streamed=True),
        relation(731),
        insert(731, 1),
        insert(731, 2),
        TransactionEnd(0x930),
    ]
    assert len(assembler.open_transactions()) == 0
    assert assembler.server_lsn == 0x930


def test_a_streamed_transaction_without_changes_is_delivered(assembler: Assembler) -> None:
    assert events(assembler, [*segment(731), commit(731)]) == [
        TransactionBegin(731, 0x900, NOON, streamed=True),
        TransactionEnd(0x930),
    ]


def test_every_kind_of_change_waits_for_the_commit(assembler: Assembler) -> None:
    changes = [
        xlog_data(build.origin(0, "elsewhere"), 0x100),
        xlog_data(build.type_(16400, "public", "mood", xid=731)),
        relation(731),
        insert(731, 1),
        xlog_data(build.update(ORDERS, ["2"], key=["1"], xid=731), 0x102),
        xlog_data(build.delete(ORDERS, key=["2"], xid=731), 0x103),
        xlog_data(build.truncate([ORDERS], xid=731), 0x104),
        xlog_data(build.message("audit", b"...", lsn=0x105, xid=731), 0x105),
    ]
    assert events(assembler, segment(731, *changes)) == []
    assert events(assembler, [commit(731)])[1:-1] == changes


def test_transactions_interleave_and_come_out_in_commit_order(assembler: Assembler) -> None:
    plain = xlog_data(build.insert(ORDERS, ["4"]), 0x201)
    frames = [
        *segment(731, insert(731, 1)),
        *segment(732, insert(732, 2)),
        *segment(731, insert(731, 3), first=False),
        commit(732, 0x900),
        xlog_data(build.begin(0xA00, xid=733), 0x200),
        plain,
        xlog_data(build.commit(0xA00, 0xA30), 0xA30),
        commit(731, 0xB00),
    ]
    out = transactions(events(assembler, frames))
    assert [(it.begin.xid, it.end_lsn) for it in out] == [(732, 0x930), (733, 0xA30), (731, 0xB30)]
    assert [it.frames for it in out] == [[insert(732, 2)], [plain], [insert(731, 1), insert(731, 3)]]


def test_an_xid_may_be_reused_after_its_transaction_ended(assembler: Assembler) -> None:
    once = [*segment(731, insert(731, 1)), commit(731)]
    assert delivered(assembler, once + once) == [[insert(731, 1)], [insert(731, 1)]]


# --- Positions


def test_keepalives_between_and_inside_segments_are_reached(assembler: Assembler) -> None:
    """The open transaction commits later, and after a restart it is sent again from its first segment."""
    frames = [
        xlog_data(build.stream_start(731), 0x100),
        build.keepalive(0x500),
        STOP,
        build.keepalive(0x600),
    ]
    assert events(assembler, frames) == [Watermark(0x500), Watermark(0x600)]


# --- Aborts


def test_the_abort_of_a_subtransaction_drops_only_its_changes(assembler: Assembler) -> None:
    """ROLLBACK TO SAVEPOINT. A consumer that dropped the whole transaction delivered 5 rows of 505."""
    frames = [
        *segment(731, insert(731, 1), insert(732, 2), insert(733, 3)),
        abort(731, 732),
        *segment(731, insert(731, 4), first=False),
        commit(731),
    ]
    assert delivered(assembler, frames) == [[insert(731, 1), insert(733, 3), insert(731, 4)]]


def test_each_child_of_an_aborted_subtransaction_has_its_own_abort(assembler: Assembler) -> None:
    frames = [
        *segment(731, insert(731, 1), insert(732, 2), insert(733, 3)),
        abort(731, 733),
        abort(731, 732),
        commit(731),
    ]
    assert delivered(assembler, frames) == [[insert(731, 1)]]


def test_an_abort_drops_every_kind_of_change_but_origin(assembler: Assembler) -> None:
    origin = xlog_data(build.origin(0, "elsewhere"), 0x100)
    frames = [
        *segment(
            731,
            origin,
            xlog_data(build.type_(16400, "public", "mood", xid=732)),
            relation(732),
            insert(732, 1),
            xlog_data(build.update(ORDERS, ["2"], xid=732), 0x102),
            xlog_data(build.delete(ORDERS, key=["2"], xid=732), 0x103),
            xlog_data(build.truncate([ORDERS], xid=732), 0x104),
        ),
        abort(731, 732),
        commit(731),
    ]
    assert events(assembler, frames)[1:-1] == [origin]


def test_a_message_in_a_rolled_back_savepoint_is_delivered(assembler: Assembler) -> None:
    """PostgreSQL (18.6 at least) sends it with the top transaction's xid, so it can't be told apart."""
    message = xlog_data(build.message("audit", b"...", xid=731), 0x102)
    frames = [*segment(731, insert(732, 1), message), abort(731, 732), commit(731)]
    assert delivered(assembler, frames) == [[message]]


def test_relations_of_a_rolled_back_savepoint_are_dropped(assembler: Assembler) -> None:
    """The server sends the table's Relation again for the row that follows."""
    frames = [
        *segment(731, relation(731), insert(731, 1), relation(732, "renamed"), insert(732, 2)),
        abort(731, 732),
        *segment(731, relation(731), insert(731, 3), first=False),
        commit(731),
    ]
    assert events(assembler, frames)[1:-1] == [relation(731), insert(731, 1), relation(731), insert(731, 3)]


def test_the_abort_of_the_transaction_drops_everything(assembler: Assembler, spool: Spool) -> None:
    frames = [*segment(731, relation(731), insert(731, 1)), abort(731)]
    assert events(assembler, frames) == []
    assert len(assembler.open_transactions()) == 0


def test_an_abort_with_lsn_and_time_drops_the_same(assembler: Assembler) -> None:
    """With streaming 'parallel'. The LSN may be 0 after a crash."""
    frames = [
        *segment(731, insert(731, 1), insert(732, 2)),
        xlog_data(build.stream_abort(731, 732, abort_lsn=0), 0x800),
        commit(731),
    ]
    assert delivered(assembler, frames) == [[insert(731, 1)]]


def test_aborts_of_unknown_transactions_are_ignored(assembler: Assembler) -> None:
    """Subtransactions that sent nothing, and transactions that were never streamed (PostgreSQL 18)."""
    frames = [abort(799), abort(799, 800), *segment(731, insert(731, 1)), abort(731, 801), commit(731)]
    assert delivered(assembler, frames) == [[insert(731, 1)]]


def test_an_abort_leaves_other_transactions_alone(assembler: Assembler) -> None:
    frames = [*segment(731, insert(731, 1)), *segment(732, insert(732, 2)), abort(732), commit(731)]
    assert delivered(assembler, frames) == [[insert(731, 1)]]


# --- Replay


def test_a_replay_is_taken_in_slices(assembler: Assembler) -> None:
    rows = [insert(731, number) for number in range(5)]
    assert assembler.receive_all([*segment(731, *rows), commit(731)], 0) == 8
    assert assembler.replaying
    assert assembler.take_events() == [TransactionBegin(731, 0x900, NOON, streamed=True)]
    size = len(rows[0])
    for number in (0, 2):
        assembler.replay(size + 1)
        assert assembler.take_events() == rows[number : number + 2]
        assert assembler.replaying
    assembler.replay(size + 1)
    assert assembler.take_events() == [rows[4], TransactionEnd(0x930)]
    assert not assembler.replaying


def test_a_slice_ending_with_the_last_frame_leaves_the_end_for_the_next(assembler: Assembler) -> None:
    assembler.receive_all([*segment(731, insert(731, 1)), commit(731)], 0)
    assembler.replay(1)
    assert assembler.take_events()[-1] == insert(731, 1)
    assembler.replay(1)
    assert assembler.take_events() == [TransactionEnd(0x930)]


def test_skipping_aborted_changes_counts_towards_a_slice(assembler: Assembler) -> None:
    rows = [insert(732, number) for number in range(3)]
    assembler.receive_all([*segment(731, *rows), abort(731, 732), commit(731)], 0)
    assembler.take_events()
    for _ in rows:
        assembler.replay(1)
        assert assembler.take_events() == []
    assembler.replay(1)
    assert assembler.take_events() == [TransactionEnd(0x930)]


def test_in_segment_holds_from_stream_start_to_stream_stop(assembler: Assembler) -> None:
    [start, row, stop] = segment(731, insert(731, 1))
    for frame, inside in ((start, True), (row, True), (stop, False), (commit(731), False)):
        assembler.receive(frame)
        assert assembler.in_segment == inside


def test_receiving_stops_at_a_commit_that_must_be_replayed(assembler: Assembler) -> None:
    frames = [*segment(731, insert(731, 1)), commit(731), build.keepalive(0x950)]
    assert assembler.receive_all(frames, 0) == 4
    assert assembler.receive_all(frames, 4) == 4
    assembler.replay(UNLIMITED)
    assert assembler.receive_all(frames, 4) == 5
    assert assembler.take_events()[-2:] == [TransactionEnd(0x930), Watermark(0x950)]


# --- Over the memory limit


def test_over_the_memory_limit_the_largest_transaction_spills(spool: Spool) -> None:
    assembler = Assembler(spool, PreparedStore(spool), memory_limit=3 * (len(insert(1, 1)) + 4))
    events(assembler, segment(731, insert(731, 1)))
    events(assembler, segment(732, insert(732, 2), insert(732, 3)))
    assert spool.on_disk == 0
    events(assembler, segment(733, insert(733, 4)))
    assert [path.name for path in spool.directory.iterdir()] == ["732.spool"]
    assembler.close()


def test_a_spilled_transaction_comes_out_the_same(spilling: Assembler, spool: Spool) -> None:
    frames = [
        *segment(731, insert(731, 1), insert(732, 2)),
        abort(731, 732),
        *segment(731, insert(731, 3), first=False),
    ]
    assert events(spilling, frames) == []
    assert spool.on_disk > 0
    assert delivered(spilling, [commit(731)]) == [[insert(731, 1), insert(731, 3)]]


@pytest.mark.parametrize("end", [commit(731), abort(731)], ids=["commit", "abort"])
def test_files_are_removed_when_their_transaction_ends(spilling: Assembler, spool: Spool, end: bytes) -> None:
    events(spilling, segment(731, insert(731, 1)))
    assert list(spool.directory.iterdir())
    events(spilling, [end])
    assert spool.on_disk == 0
    assert not list(spool.directory.iterdir())


def test_a_damaged_spool_file_stops_the_replay(spilling: Assembler, spool: Spool) -> None:
    """No TransactionEnd comes out, so nothing of it can be confirmed."""
    events(spilling, segment(731, insert(731, 1), insert(731, 2)))
    (spool.directory / "731.spool").write_bytes(b"")
    spilling.receive(commit(731))
    with pytest.raises(SpoolError, match=r"731\.spool: the file ends too early"):
        spilling.replay(UNLIMITED)
    assert not any(isinstance(event, TransactionEnd) for event in spilling.take_events())


def test_a_full_disk_leaves_nothing_behind(spilling: Assembler, spool: Spool) -> None:
    (spool.directory / "731.spool").symlink_to("/dev/full")
    with pytest.raises(SpoolError, match=r"731\.spool: No space left on device"):
        events(spilling, segment(731, insert(731, 1)))
    spilling.close()
    assert spool.on_disk == 0
    assert not list(spool.directory.iterdir())


# --- The end of the connection


def test_closing_drops_open_and_replaying_transactions(spilling: Assembler, spool: Spool) -> None:
    frames = [*segment(731, insert(731, 1)), *segment(732, insert(732, 2)), commit(731)]
    assert spilling.receive_all(frames, 0) == len(frames)
    assert len(list(spool.directory.iterdir())) == 2
    spilling.close()
    assert not list(spool.directory.iterdir())
    assert spool.on_disk == 0
    assert len(spilling.open_transactions()) == 0
    assert not spilling.replaying


def test_after_a_reconnect_streams_begin_with_their_first_segment(spilling: Assembler, spool: Spool) -> None:
    events(spilling, segment(731, insert(731, 1)))
    spilling.close()
    again = Assembler(spool, PreparedStore(spool), 0)
    frames = [*segment(731, insert(731, 1), insert(731, 2)), commit(731)]
    assert delivered(again, frames) == [[insert(731, 1), insert(731, 2)]]


# --- Out of place


def test_a_second_first_segment_is_refused(assembler: Assembler) -> None:
    with pytest.raises(ProtocolError) as caught:
        events(assembler, [*segment(731), xlog_data(build.stream_start(731), 0x16B374D848)])
    assert str(caught.value) == "StreamStart of transaction 731, which has begun already (LSN 16/B374D848)"


def test_a_later_segment_of_an_unknown_transaction_is_refused(assembler: Assembler) -> None:
    with pytest.raises(ProtocolError) as caught:
        events(assembler, [xlog_data(build.stream_start(731, first=False), 0x16B374D848)])
    assert str(caught.value) == "StreamStart of transaction 731, which is not known (LSN 16/B374D848)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("StreamCommit", build.stream_commit(731, 0x900, 0x930)),
        ("StreamPrepare", build.stream_prepare(0x900, 0x930, 731, "g")),
    ],
)
@pytest.mark.parametrize("gone", [[], [*segment(731), abort(731)], [*segment(731), commit(731)]])
def test_the_end_of_a_streamed_transaction_that_is_not_open_is_refused(
    assembler: Assembler, name: str, message: bytes, gone: list[bytes]
) -> None:
    """Never delivered as if it were empty."""
    events(assembler, gone)
    with pytest.raises(ProtocolError) as caught:
        assembler.receive(xlog_data(message, 0x16B374D848))
    assert str(caught.value) == f"{name} of transaction 731, which has no StreamStart (LSN 16/B374D848)"


def test_a_change_too_short_for_its_xid_is_refused(assembler: Assembler) -> None:
    assembler.receive(xlog_data(build.stream_start(731), 0x100))
    with pytest.raises(ProtocolError, match=r"message 'I' is truncated \(LSN 16/B374D848\)"):
        assembler.receive(xlog_data(b"I\0\0\0", 0x16B374D848))
