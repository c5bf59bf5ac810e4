"""Plain transactions, keepalives and logical messages; and messages that are out of place."""

from pathlib import Path

import pytest

from pgrelay.assembly.assembler import Assembler
from pgrelay.assembly.events import TransactionBegin, TransactionEnd, Watermark
from pgrelay.assembly.prepared import PreparedStore
from pgrelay.assembly.spool import Spool
from pgrelay.errors import ProtocolError
from tests.assembly.transactions import UNLIMITED, events
from tests.wire import build
from tests.wire.build import NOON, xlog_data

ORDERS = 16384

RELATION = xlog_data(build.relation(ORDERS, "public", "orders", "d", [build.Column("id", key=True)]))
TYPE = xlog_data(build.type_(16400, "public", "mood"))
CHANGES = [
    xlog_data(build.origin(0x100, "elsewhere"), 0x200),
    xlog_data(build.insert(ORDERS, ["1"]), 0x210),
    xlog_data(build.update(ORDERS, ["2"], key=["1"]), 0x220),
    xlog_data(build.delete(ORDERS, key=["2"]), 0x230),
    xlog_data(build.truncate([ORDERS]), 0x240),
    xlog_data(build.message("audit", b"...", lsn=0x250), 0x250),
]
BEGIN = xlog_data(build.begin(0x300, NOON + 1, xid=731), 0x200)
COMMIT = xlog_data(build.commit(0x300, 0x330, NOON + 1), 0x330)


@pytest.fixture
def assembler(tmp_path: Path) -> Assembler:
    spool = Spool(tmp_path)
    return Assembler(spool, PreparedStore(spool), UNLIMITED)


# --- Plain transactions


def test_a_plain_transaction_passes_straight_through(assembler: Assembler) -> None:
    frames = [BEGIN, RELATION, *CHANGES, COMMIT]
    assert events(assembler, frames) == [
        TransactionBegin(731, commit_lsn=0x300, commit_us=NOON + 1),
        RELATION,
        *CHANGES,
        TransactionEnd(0x330),
    ]


def test_a_plain_transaction_does_not_wait_for_its_commit(assembler: Assembler) -> None:
    assembler.receive(BEGIN)
    assembler.receive(CHANGES[1])
    assert assembler.take_events() == [TransactionBegin(731, 0x300, NOON + 1), CHANGES[1]]
    assert len(assembler.open_transactions()) == 0


def test_the_header_lsn_of_begin_is_ignored(assembler: Assembler) -> None:
    """It is 0 if an Origin follows; otherwise it is lower than those of the transaction before it."""
    for lsn in (0x200, 0):
        begin = xlog_data(build.begin(0x300, NOON + 1, xid=731), lsn)
        assert events(assembler, [begin, COMMIT])[0] == TransactionBegin(731, 0x300, NOON + 1)


def test_relations_and_types_pass_outside_of_transactions_too(assembler: Assembler) -> None:
    assert events(assembler, [TYPE, RELATION]) == [TYPE, RELATION]


def test_each_event_is_taken_once(assembler: Assembler) -> None:
    assembler.receive(RELATION)
    assert assembler.take_events() == [RELATION]
    assert assembler.take_events() == []


def test_frames_are_received_from_where_the_last_call_stopped(assembler: Assembler) -> None:
    frames = [COMMIT, BEGIN, COMMIT]
    assert assembler.receive_all(frames, 1) == 3
    assert assembler.receive_all(frames, 3) == 3
    assert len(assembler.take_events()) == 2


def test_whole_transactions_before_an_error_come_out(assembler: Assembler) -> None:
    """They are relayed whatever follows them."""
    frames = [BEGIN, COMMIT, xlog_data(build.commit(0x400, 0x430, NOON + 1), 0x430)]
    assert assembler.receive_all(frames, 0) == 2
    assert assembler.take_events() == [TransactionBegin(731, 0x300, NOON + 1), TransactionEnd(0x330)]
    with pytest.raises(ProtocolError, match="out of place"):
        assembler.receive_all(frames, 2)


# --- Positions


def test_a_keepalive_reaches_its_wal_end(assembler: Assembler) -> None:
    assert events(assembler, [build.keepalive(0x500)]) == [Watermark(0x500)]


def test_a_keepalive_inside_a_transaction_reaches_nothing(assembler: Assembler) -> None:
    """Its WAL end may lie past the transaction's own end, which is not delivered yet."""
    out = events(assembler, [BEGIN, build.keepalive(0x500), COMMIT, build.keepalive(0x500)])
    assert out == [TransactionBegin(731, 0x300, NOON + 1), TransactionEnd(0x330), Watermark(0x500)]


def test_server_lsn_is_the_highest_end_seen(assembler: Assembler) -> None:
    assert assembler.server_lsn == 0
    events(assembler, [BEGIN, COMMIT])
    assert assembler.server_lsn == 0x330
    events(assembler, [build.keepalive(0x500)])
    assert assembler.server_lsn == 0x500
    events(assembler, [BEGIN, COMMIT, RELATION, build.keepalive(0x400)])
    assert assembler.server_lsn == 0x500


def test_a_keepalive_inside_a_transaction_moves_server_lsn(assembler: Assembler) -> None:
    events(assembler, [BEGIN, build.keepalive(0x500)])
    assert assembler.server_lsn == 0x500


# --- Logical messages


def test_a_nontransactional_message_is_a_transaction_of_its_own(assembler: Assembler) -> None:
    message = xlog_data(
        build.message("audit", b"...", lsn=0x400, transactional=False), 0x400, sent_us=NOON + 2
    )
    out = events(assembler, [message])
    # A commit record may begin at 0x400: nothing past that is confirmed.
    assert out == [TransactionBegin(None, 0x400, NOON + 2), message, TransactionEnd(0x400)]
    assert assembler.server_lsn == 0x400


def test_a_transactional_message_outside_any_transaction_is_refused(assembler: Assembler) -> None:
    with pytest.raises(ProtocolError, match=r"message 'M' out of place, outside any transaction \(LSN 0/400"):
        assembler.receive(xlog_data(build.message("audit", b"...", lsn=0x400), 0x400))


# --- Out of place

BEGUN = {
    "outside any transaction": [],
    "inside transaction 731": [BEGIN],
    "inside a segment of streamed transaction 732": [xlog_data(build.stream_start(732))],
    "inside prepared transaction 733": [xlog_data(build.begin_prepare(0x300, 0x330, 733, "g"), 0x300)],
}
MESSAGES = {
    "B": build.begin(0x900, xid=799),
    "C": build.commit(0x900, 0x930),
    "O": build.origin(0x100, "elsewhere"),
    "I": build.insert(ORDERS, ["1"]),
    "U": build.update(ORDERS, ["1"]),
    "D": build.delete(ORDERS, key=["1"]),
    "T": build.truncate([ORDERS]),
    "S": build.stream_start(799),
    "E": build.stream_stop(),
    "c": build.stream_commit(732, 0x900, 0x930),
    "A": build.stream_abort(732),
    "b": build.begin_prepare(0x900, 0x930, 799, "g"),
    "P": build.prepare(0x900, 0x930, 733, "g"),
    "p": build.stream_prepare(0x900, 0x930, 732, "g"),
    "K": build.commit_prepared(0x900, 0x930, 733, "g"),
    "r": build.rollback_prepared(0x900, 0x930, 733, "g"),
}
IN_PLACE = {
    "outside any transaction": "BSAcbPpKr",
    "inside transaction 731": "OIUDTC",
    "inside a segment of streamed transaction 732": "OIUDTE",
    "inside prepared transaction 733": "OIUDTP",
}
OUT_OF_PLACE = [(where, tag) for where in BEGUN for tag in MESSAGES if tag not in IN_PLACE[where]]


@pytest.mark.parametrize(("where", "tag"), OUT_OF_PLACE)
def test_the_error_for_a_message_out_of_place_names_it_and_its_lsn(
    assembler: Assembler, where: str, tag: str
) -> None:
    for frame in BEGUN[where]:
        assembler.receive(frame)
    with pytest.raises(ProtocolError) as caught:
        assembler.receive(xlog_data(MESSAGES[tag], 0x16B374D848))
    assert str(caught.value) == f"message '{tag}' out of place, {where} (LSN 16/B374D848)"
    assembler.close()


def test_a_commit_lsn_other_than_that_of_begin_is_refused(assembler: Assembler) -> None:
    with pytest.raises(ProtocolError) as caught:
        events(assembler, [BEGIN, xlog_data(build.commit(0x310, 0x330), 0x330)])
    assert str(caught.value) == (
        "transaction 731 began for commit LSN 0/300 and committed at 0/310 (LSN 0/330)"
    )


# --- Against the protocol


@pytest.mark.parametrize("frame", [b"x" + bytes(40), b"d", b"\0"], ids=repr)
def test_an_unknown_replication_message_is_refused(assembler: Assembler, frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="unknown replication message"):
        assembler.receive(frame)


def test_xlogdata_too_short_for_a_message_is_refused(assembler: Assembler) -> None:
    whole = xlog_data(b"E", 0x200)
    for size in range(1, len(whole)):
        with pytest.raises(ProtocolError, match="XLogData is truncated"):
            assembler.receive(whole[:size])


def test_a_truncated_or_oversized_keepalive_is_refused(assembler: Assembler) -> None:
    whole = build.keepalive(0x500)
    for frame in (*(whole[:size] for size in range(1, len(whole))), whole + b"\0"):
        with pytest.raises(ProtocolError, match="PrimaryKeepalive"):
            assembler.receive(frame)


@pytest.mark.parametrize("where", BEGUN)
@pytest.mark.parametrize("tag", "CEcbPpKrBSA")
def test_the_error_for_a_damaged_transaction_message_names_its_lsn(
    tmp_path: Path, where: str, tag: str
) -> None:
    whole = xlog_data(MESSAGES[tag], 0x16B374D848)
    # An abort may be longer, by its LSN and time.
    damaged = [whole[:size] for size in range(26, len(whole))] + [whole + b"\0"]
    for frame in damaged:
        assembler = Assembler(Spool(tmp_path), PreparedStore(Spool(tmp_path)), UNLIMITED)
        for before in BEGUN[where]:
            assembler.receive(before)
        with pytest.raises(ProtocolError, match=r"(truncated|oversized).*\(LSN 16/B374D848\)$"):
            assembler.receive(frame)
        assembler.close()


@pytest.mark.parametrize("where", sorted(BEGUN.keys() - {"inside transaction 731"}))
@pytest.mark.parametrize("tag", "RY")
def test_the_error_for_a_relation_too_short_for_its_ids_names_its_lsn(
    assembler: Assembler, where: str, tag: str
) -> None:
    """In a plain transaction the encoder refuses them, because it reads every one."""
    for before in BEGUN[where]:
        assembler.receive(before)
    with pytest.raises(ProtocolError, match=rf"message '{tag}' is truncated \(LSN 16/B374D848\)"):
        assembler.receive(xlog_data(tag.encode() + b"\0\0\0", 0x16B374D848))
    assembler.close()


def test_the_error_for_an_unknown_message_names_its_tag_and_lsn(assembler: Assembler) -> None:
    with pytest.raises(ProtocolError, match=r"unknown message tag 'Z'.* \(LSN 16/B374D848\)"):
        assembler.receive(xlog_data(b"Z", 0x16B374D848))
