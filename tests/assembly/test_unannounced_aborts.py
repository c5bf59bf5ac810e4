"""Subtransactions that were rolled back without a StreamAbort, as the server says when it is asked."""

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import TransactionBegin, TransactionEnd
from pgrelay.assembly.spool import Spool
from tests.assembly.transactions import UNLIMITED, abort, commit, events, insert, relation, segment
from tests.wire import build
from tests.wire.build import NOON, xlog_data


def test_a_transaction_with_subtransactions_waits_until_the_server_was_asked(assembler: Assembler) -> None:
    rows = [insert(731, 1), insert(732, 2), insert(733, 3), insert(734, 4)]
    frames = [*segment(731, *rows), abort(731, 733), commit(731), build.keepalive(0x950)]
    assert assembler.receive_all(frames, 0) == 8
    assert list(assembler.in_doubt) == [732, 734]
    assert (assembler.take_events(), len(assembler.open_transactions())) == ([], 1)
    assert assembler.receive_all(frames, 8) == 8
    assembler.resolve([734])
    assert not assembler.in_doubt
    assembler.replay(UNLIMITED)
    assert assembler.take_events() == [
        TransactionBegin(731, 0x900, NOON, streamed=True),
        *rows[:2],
        TransactionEnd(0x930),
    ]
    assert assembler.receive_all(frames, 8) == 9


def test_an_origin_is_of_no_subtransaction(assembler: Assembler) -> None:
    """It has no xid in a stream."""
    assembler.receive_all(
        [*segment(731, xlog_data(build.origin(0x733, "o")), insert(731, 1)), commit(731)], 0
    )
    assert not assembler.in_doubt


def test_relations_of_an_unannounced_rollback_describe_later_rows(assembler: Assembler) -> None:
    row = insert(731, 2)
    frames = [*segment(731, relation(732), insert(732, 1), row), commit(731)]
    out = events(assembler, frames, rolled_back={732})
    assert out == [
        TransactionBegin(731, 0x900, NOON, streamed=True),
        relation(732),
        row,
        TransactionEnd(0x930),
    ]


def test_closing_drops_a_transaction_that_is_in_doubt(spilling: Assembler, spool: Spool) -> None:
    spilling.receive_all([*segment(731, insert(732, 1)), commit(731)], 0)
    assert list(spilling.in_doubt) == [732]
    spilling.close()
    assert spool.on_disk == 0
    assert spilling.receive_all(segment(735, insert(735, 1)), 0) == 3
