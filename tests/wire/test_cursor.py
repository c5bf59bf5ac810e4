"""The cursor that every message is read with checks each step."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.errors import ProtocolError
from pgrelay.wire.cursor import Cursor, read_u32

INTEGERS: dict[str, tuple[str, Callable[[Cursor, str], int], int, int]] = {
    "u8": ("!B", Cursor.u8, 0, 2**8 - 1),
    "i16": ("!h", Cursor.i16, -(2**15), 2**15 - 1),
    "i32": ("!i", Cursor.i32, -(2**31), 2**31 - 1),
    "u32": ("!I", Cursor.u32, 0, 2**32 - 1),
    "i64": ("!q", Cursor.i64, -(2**63), 2**63 - 1),
    "u64": ("!Q", Cursor.u64, 0, 2**64 - 1),
}
each_integer = pytest.mark.parametrize(
    ("code", "read", "low", "high"), INTEGERS.values(), ids=INTEGERS.keys()
)


@each_integer
@given(data=st.data())
def test_integers_are_read_in_network_byte_order(
    code: str, read: Callable[[Cursor, str], int], low: int, high: int, data: st.DataObject
) -> None:
    value = data.draw(st.integers(low, high))
    cursor = Cursor("Begin", b"." + struct.pack(code, value) + b".", pos=1)
    assert read(cursor, "field") == value
    assert cursor.pos == 1 + struct.calcsize(code)


@each_integer
def test_each_integers_lowest_and_highest_value_are_read(
    code: str, read: Callable[[Cursor, str], int], low: int, high: int
) -> None:
    for value in (low, high):
        assert read(Cursor("Begin", struct.pack(code, value)), "field") == value


@each_integer
def test_an_integer_past_the_end_is_refused(
    code: str, read: Callable[[Cursor, str], int], low: int, high: int
) -> None:
    size = struct.calcsize(code)
    cursor = Cursor("Begin", bytes(2 + size - 1), pos=2)
    with pytest.raises(ProtocolError) as refusal:
        read(cursor, "final LSN")
    assert str(refusal.value) == (
        f"Begin is truncated: final LSN at offset 2 wants {size} bytes, the message ends at {size + 1}"
    )


@pytest.mark.parametrize("value", [0, 16384, 2**31, 2**32 - 1])
def test_an_id_can_be_read_without_a_cursor(value: int) -> None:
    assert read_u32(b"I" + struct.pack("!I", value), 1) == value


@pytest.mark.parametrize("size", range(5))
def test_an_id_past_the_end_is_an_index_error(size: int) -> None:
    with pytest.raises(IndexError):
        read_u32(b"I\0\0\0"[:size], 1)


def test_a_string_ends_at_its_zero_byte() -> None:
    cursor = Cursor("Origin", b"node-b\0rest")
    assert cursor.string("origin name") == "node-b"
    assert cursor.take(4, "rest") == b"rest"


def test_a_string_may_be_empty() -> None:
    cursor = Cursor("Origin", b"\0\0")
    assert [cursor.string("origin name"), cursor.string("origin name")] == ["", ""]
    cursor.require_end()


def test_a_string_without_its_zero_byte_is_refused() -> None:
    with pytest.raises(ProtocolError) as refusal:
        Cursor("Origin", b"\0node-b", pos=1).string("origin name")
    assert str(refusal.value) == ("Origin is truncated: origin name at offset 1 has no terminating zero byte")


@given(st.binary().map(lambda raw: raw.replace(b"\0", b"")))
def test_a_string_of_any_bytes_keeps_them(raw: bytes) -> None:
    assert Cursor("Origin", raw + b"\0").string("name").encode("utf-8", "surrogateescape") == raw


@pytest.mark.parametrize("size", [-1, 4, 2**31 - 1])
def test_taking_more_bytes_than_are_left_is_refused(size: int) -> None:
    cursor = Cursor("Message", b"abc")
    with pytest.raises(
        ProtocolError, match=f"content at offset 0 wants {size} bytes, the message ends at 3$"
    ):
        cursor.take(size, "content")
    assert cursor.take(3, "content") == b"abc"


def test_a_negative_count_is_refused() -> None:
    cursor = Cursor("Truncate", b"")
    assert cursor.require_nonnegative(0, "relations") == 0
    with pytest.raises(ProtocolError, match=r"^Truncate has -3 relations before offset 0$"):
        cursor.require_nonnegative(-3, "relations")


def test_bytes_left_at_the_end_are_refused() -> None:
    cursor = Cursor("Begin", b"abc", pos=1)
    with pytest.raises(ProtocolError, match=r"^Begin is oversized: 2 bytes left at offset 1$"):
        cursor.require_end()
    cursor.take(2, "rest")
    cursor.require_end()
