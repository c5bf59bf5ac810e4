"""The contents of CopyData in the manual's layout (Streaming Replication Protocol)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.errors import ProtocolError
from pgrelay.lsn import parse_lsn
from pgrelay.wire.replication import (
    HEADER_SIZE,
    PrimaryKeepalive,
    StandbyStatusUpdate,
    check_frame,
    frame_lsn,
    frame_sent_us,
)
from tests.wire import build
from tests.wire.build import NOON
from tests.wire.layout import layout
from tests.wire.strategies import lsns, times

ONE = NOON + 1


def test_xlog_data() -> None:
    frame = layout("""
        77                          Byte1('w') Identifies the message as WAL data.
        00 00 00 00 01 6B 37 40     Int64 The starting point of the WAL data in this message.
        00 00 00 00 01 6B 37 70     Int64 The current end of WAL on the server.
        00 02 B5 82 C4 78 10 01     Int64 The server's system clock at the time of transmission.
        "E"                         Byten A section of the WAL data stream.
    """)
    assert (frame_lsn(frame), frame_sent_us(frame), frame[HEADER_SIZE:]) == (0x16B3740, ONE, b"E")
    assert build.xlog_data(b"E", lsn=0x16B3740, wal_end=0x16B3770, sent_us=ONE) == frame


@given(start=lsns, end=lsns, sent=times, payload=st.binary())
def test_xlog_data_of_any_values(start: int, end: int, sent: int, payload: bytes) -> None:
    frame = build.xlog_data(payload, start, end, sent)
    assert frame_lsn(frame) == start
    assert frame_sent_us(frame) == sent
    assert frame[HEADER_SIZE:] == payload


@pytest.mark.parametrize("size", range(HEADER_SIZE + 1))
def test_a_frame_without_a_message_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"^XLogData is truncated: {size} bytes hold no message$"):
        check_frame(build.xlog_data(b"E")[:size])


def test_a_frame_with_a_message_is_accepted() -> None:
    check_frame(build.xlog_data(build.stream_stop()))


@pytest.mark.parametrize(("octet", "reply"), [("00", False), ("01", True)])
def test_primary_keepalive(octet: str, reply: bool) -> None:
    frame = layout(f"""
        6B                          Byte1('k') Identifies the message as a sender keepalive.
        00 00 00 00 01 6B 37 70     Int64 The current end of WAL on the server.
        00 02 B5 82 C4 78 10 01     Int64 The server's system clock at the time of transmission.
        {octet}                     Byte1 1 means that the client should reply to this message now.
    """)
    assert PrimaryKeepalive.parse(frame) == PrimaryKeepalive(0x16B3770, sent_us=ONE, reply=reply)
    assert build.keepalive(0x16B3770, reply, sent_us=ONE) == frame


@given(end=lsns, sent=times, reply=st.booleans())
def test_a_keepalive_of_any_values(end: int, sent: int, reply: bool) -> None:
    frame = build.keepalive(end, reply, sent)
    assert PrimaryKeepalive.parse(frame) == PrimaryKeepalive(end, sent, reply)
    for size in range(len(frame)):
        with pytest.raises(ProtocolError, match=r"^PrimaryKeepalive is truncated"):
            PrimaryKeepalive.parse(frame[:size])
    with pytest.raises(ProtocolError, match=r"^PrimaryKeepalive is oversized: 1 bytes left at offset 18$"):
        PrimaryKeepalive.parse(frame + b"\0")


@pytest.mark.parametrize(("reply", "octet"), [(False, "00"), (True, "01")])
def test_standby_status_update(reply: bool, octet: str) -> None:
    update = StandbyStatusUpdate(
        write=parse_lsn("0/16B3770"), flush=parse_lsn("0/16B3740"), apply=1, sent_us=ONE, reply=reply
    )
    assert update.serialize() == layout(f"""
        72                          Byte1('r') Identifies the message as a receiver status update.
        00 00 00 00 01 6B 37 70     Int64 The last WAL byte + 1 received and written to disk.
        00 00 00 00 01 6B 37 40     Int64 The last WAL byte + 1 flushed to disk.
        00 00 00 00 00 00 00 01     Int64 The last WAL byte + 1 applied.
        00 02 B5 82 C4 78 10 01     Int64 The client's system clock at the time of transmission.
        {octet}                     Byte1 1: the client requests the server to reply immediately.
    """)


def test_a_standby_status_update_asks_for_no_reply_by_default() -> None:
    assert StandbyStatusUpdate(1, 1, 1, NOON).serialize()[-1] == 0


def test_lsns_above_2_to_the_63_are_sent_unsigned() -> None:
    update = StandbyStatusUpdate(
        write=parse_lsn("FFFFFFFF/FFFFFFFF"),
        flush=parse_lsn("80000000/0"),
        apply=parse_lsn("7FFFFFFF/FFFFFFFF"),
        sent_us=NOON,
    )
    assert update.serialize()[1:25] == layout("""
        FF FF FF FF FF FF FF FF
        80 00 00 00 00 00 00 00
        7F FF FF FF FF FF FF FF
    """)


@given(write=lsns, flush=lsns, apply=lsns, sent=times, reply=st.booleans())
def test_a_standby_status_update_of_any_values(
    write: int, flush: int, apply: int, sent: int, reply: bool
) -> None:
    since_2000 = sent - build.unix_us(build.Y2K)
    assert StandbyStatusUpdate(write, flush, apply, sent, reply).serialize() == struct.pack(
        "!cQQQqB", b"r", write, flush, apply, since_2000, reply
    )
