"""What holds for every message of pgoutput: it is read whole or refused, and never misread."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from pgrelay.errors import ProtocolError
from pgrelay.wire.pgoutput import PgoutputMessage, parse
from pgrelay.wire.replication import HEADER_SIZE
from pgrelay.wire.transactions import StreamAbort
from tests.wire import build
from tests.wire.strategies import EVERY_MESSAGE, IN_STREAM, PLAIN, Sent

each_message = pytest.mark.parametrize("messages", EVERY_MESSAGE.values(), ids=EVERY_MESSAGE.keys())
any_message = st.one_of(*EVERY_MESSAGE.values())

# A StreamAbort with the LSN and time of the abort, less these, is a StreamAbort without.
SHORT_ABORT, LONG_ABORT = 9, 25


def test_every_message_of_pgoutput_is_drawn() -> None:
    drawn = {name.removesuffix(" with streaming parallel") for name in PLAIN | IN_STREAM}
    assert drawn == {message.__name__ for message in PgoutputMessage.__args__}


@each_message
@given(data=st.data())
def test_a_message_is_read_as_the_server_wrote_it(messages: SearchStrategy[Sent], data: DataObject) -> None:
    sent = data.draw(messages)
    assert parse(sent.data, sent.in_stream) == sent.message
    assert parse(build.xlog_data(sent.data), sent.in_stream, HEADER_SIZE) == sent.message


@each_message
@given(data=st.data())
def test_every_truncation_is_refused(messages: SearchStrategy[Sent], data: DataObject) -> None:
    sent = data.draw(messages)
    for size in range(1, len(sent.data)):
        if isinstance(sent.message, StreamAbort) and size == SHORT_ABORT:
            continue
        with pytest.raises(ProtocolError) as refusal:
            parse(sent.data[:size], sent.in_stream)
        complaint = re.match(rf"{sent.name} is truncated: .+ at offset (\d+) ", str(refusal.value))
        assert complaint is not None, refusal.value
        assert int(complaint[1]) <= size


@given(EVERY_MESSAGE["StreamAbort with streaming parallel"])
def test_a_stream_abort_cut_before_its_lsn_is_one_without(sent: Sent) -> None:
    message = sent.message
    assert isinstance(message, StreamAbort)
    assert len(sent.data) == LONG_ABORT
    assert parse(sent.data[:SHORT_ABORT]) == StreamAbort(message.xid, message.subxid)


@each_message
@given(data=st.data(), rest=st.binary(min_size=1, max_size=40))
def test_extra_bytes_at_the_end_are_refused(
    messages: SearchStrategy[Sent], data: DataObject, rest: bytes
) -> None:
    sent = data.draw(messages)
    oversized = sent.data + rest
    assume(not isinstance(sent.message, StreamAbort) or len(oversized) != LONG_ABORT)
    with pytest.raises(
        ProtocolError, match=rf"^{sent.name} is (oversized: \d+ bytes left|truncated: .+) at offset "
    ):
        parse(oversized, sent.in_stream)


@given(any_message, st.data(), st.booleans())
def test_changed_bytes_are_read_or_refused(sent: Sent, data: DataObject, in_stream: bool) -> None:
    damaged = bytearray(sent.data)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(bytes(damaged), in_stream)


@given(any_message, any_message, st.data())
def test_spliced_messages_are_read_or_refused(head: Sent, tail: Sent, data: DataObject) -> None:
    start = head.data[: data.draw(st.integers(0, len(head.data)))]
    end = tail.data[data.draw(st.integers(0, len(tail.data))) :]
    read_or_refuse(start + end, head.in_stream)


@given(st.sampled_from(b"BCORYIUDTMSEcAbPKrp"), st.binary(max_size=64), st.booleans())
@example(ord("M"), bytes(9) + b"\0\x7f\xff\xff\xff", False)
@example(ord("T"), b"\x7f\xff\xff\xff\0", False)
@example(ord("I"), bytes(4) + b"N\0\1t\x7f\xff\xff\xff", False)
def test_any_bytes_after_a_known_tag_are_read_or_refused(tag: int, body: bytes, in_stream: bool) -> None:
    read_or_refuse(bytes([tag]) + body, in_stream)


@given(st.binary(max_size=64), st.booleans(), st.integers(0, 70))
def test_any_bytes_are_read_or_refused(data: bytes, in_stream: bool, start: int) -> None:
    read_or_refuse(data, in_stream, start)


def read_or_refuse(data: bytes, in_stream: bool, start: int = 0) -> None:
    """Whatever else is raised (IndexError, UnicodeDecodeError, MemoryError, ...) fails the test."""
    try:
        message = parse(data, in_stream, start)
    except ProtocolError:
        return
    assert isinstance(message, PgoutputMessage)
