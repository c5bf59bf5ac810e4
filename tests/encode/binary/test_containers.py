"""Values of several parts in binary."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.binary.containers import (
    array_decoder,
    hstore_decoder,
    int2vector_text,
    oidvector_text,
    snapshot_text,
    tsvector_text,
)
from pgrelay.encode.binary.numbers import int4_text
from pgrelay.encode.values.json_value import json_string

INT4S = array_decoder(int4_text)


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def sent_array(dimensions: list[int], elements: list[bytes | None], oid: int = 23) -> bytes:
    """As array_send does, with lower bounds of 1."""
    header = i32(len(dimensions), int(None in elements), oid, *[n for d in dimensions for n in (d, 1)])
    return header + b"".join(i32(-1) if e is None else i32(len(e)) + e for e in elements)


class TestArrays:
    @pytest.mark.parametrize(
        ("dimensions", "elements", "expected"),
        [
            ([], [], b"[]"),
            ([1], [1], b"[1]"),
            ([3], [1, None, -3], b"[1,null,-3]"),
            ([2, 2], [1, 2, 3, None], b"[[1,2],[3,null]]"),
            ([1, 2, 1], [1, 2], b"[[[1],[2]]]"),
        ],
    )
    def test_an_array_is_nested_by_dimension(
        self, dimensions: list[int], elements: list[int | None], expected: bytes
    ) -> None:
        packed = [None if e is None else i32(e) for e in elements]
        assert INT4S(sent_array(dimensions, packed)) == expected

    def test_array_bounds_are_omitted(self) -> None:
        assert INT4S(i32(1, 0, 23, 2, -5, 4, 1, 4, 2)) == b"[1,2]"

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            i32(0, 0),
            i32(0, 0, 23, 0),
            i32(-1, 0, 23),
            i32(7, 0, 23) + i32(1, 1) * 7 + i32(4, 1),
            i32(1, 0, 23, 0, 1),
            i32(1, 0, 23, -1, 1),
            i32(1, 0, 23, 1, 1),
            i32(1, 0, 23, 1, 1, 4),
            i32(1, 0, 23, 1, 1, 4, 1, 0),
            i32(1, 0, 23, 1, 1, -2),
            i32(1, 0, 23, 1, 1, 3) + b"abc",
            i32(2, 0, 23, 2**31 - 1, 1, 2**31 - 1, 1),
        ],
    )
    def test_malformed_arrays_are_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match=r"the value|an array has"):
            INT4S(value)

    @given(st.data())
    def test_elements_come_in_row_major_order(self, data: st.DataObject) -> None:
        dimensions = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
        size = 1
        for length in dimensions:
            size *= length
        flat = data.draw(st.lists(st.none() | st.text(max_size=4), min_size=size, max_size=size))
        packed = [None if text is None else text.encode() for text in flat]
        nested: list[Any] = list(flat)
        for length in reversed(dimensions[1:]):
            nested = [nested[i : i + length] for i in range(0, len(nested), length)]
        assert json.loads(array_decoder(json_string)(sent_array(dimensions, packed, 25))) == nested


class TestHstore:
    decode = staticmethod(hstore_decoder(json_string))

    @given(st.dictionaries(st.text(max_size=4), st.none() | st.text(max_size=4)))
    def test_hstore_pairs_are_members(self, pairs: dict[str, str | None]) -> None:
        sent = i32(len(pairs))
        for key, value in pairs.items():
            sent += i32(len(key.encode())) + key.encode()
            sent += i32(-1) if value is None else i32(len(value.encode())) + value.encode()
        assert json.loads(self.decode(sent)) == pairs

    @pytest.mark.parametrize(
        "value",
        [b"", i32(-1), i32(1), i32(1, 1) + b"a", i32(1, -1), i32(0) + b"x", i32(1, 0, -2), i32(1, 0, 9)],
    )
    def test_malformed_hstores_are_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match="the value"):
            self.decode(value)


def test_vectors_are_digits_separated_by_spaces() -> None:
    """They are arrays in binary."""
    assert int2vector_text(bytes.fromhex("00000001 00000000 00000015 00000000 00000000")) == b""
    assert int2vector_text(i32(1, 0, 21, 2, 0) + i32(2) + b"\0\1" + i32(2) + b"\xff\xfe") == b"1 -2"
    assert oidvector_text(i32(1, 0, 26, 2, 0, 4, 1, 4, -1)) == b"1 4294967295"
    for wrong in (b"", i32(1, 0, 26, 1, 0), i32(1, 0, 26, 1, 0, 4, 1, 0), i32(1, 0, 26, -1, 0)):
        with pytest.raises(ValueError, match="the value"):
            oidvector_text(wrong)


def test_snapshots_print_as_postgres_prints_them() -> None:
    assert snapshot_text(i32(0) + struct.pack(">qq", 10, 20)) == b"10:20:"
    assert snapshot_text(i32(2) + struct.pack(">qqqq", 10, 20, 10, 15)) == b"10:20:10,15"
    for wrong in (b"", i32(0), i32(1) + bytes(16), i32(0) + bytes(24), i32(-1) + bytes(16)):
        with pytest.raises(ValueError, match="the value"):
            snapshot_text(wrong)


class TestTsvector:
    """The examples were written by tsvector_send of PostgreSQL 18."""

    @pytest.mark.parametrize(
        ("sent", "text"),
        [
            ("00000000", b""),
            ("00000001 6100 0000", b"'a'"),
            ("00000002 612062 00 0002 c001 0002 697427736300 0000", b"'a b':1A,2 'it''sc'"),
            ("00000002 615c62 00 0000 69742773 00 0002 8003 4004", rb"'a\\b' 'it''s':3B,4C"),
        ],
    )
    def test_values_that_a_server_sent(self, sent: str, text: bytes) -> None:
        assert tsvector_text(bytes.fromhex(sent)) == text

    @pytest.mark.parametrize(
        "sent", ["", "00000001", "00000001 61", "00000001 6100 0001", "00000000 00", "ffffffff"]
    )
    def test_malformed_tsvectors_are_refused(self, sent: str) -> None:
        with pytest.raises(ValueError, match=r"the value|has no end"):
            tsvector_text(bytes.fromhex(sent))
