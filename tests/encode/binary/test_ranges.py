"""Postgres's text of ranges and multiranges in binary."""

import struct

import pytest

from pgrelay.encode.binary.numbers import int4_text
from pgrelay.encode.binary.ranges import multirange_decoder, range_decoder

INT4RANGE = range_decoder(int4_text)
TEXTRANGE = range_decoder(lambda value: value)
EMPTY, LOWER_INC, UPPER_INC, LOWER_INF, UPPER_INF = 1, 2, 4, 8, 16


def sent(flags: int, *bounds: bytes) -> bytes:
    return bytes((flags,)) + b"".join(struct.pack(">i", len(bound)) + bound for bound in bounds)


ONE, FIVE = struct.pack(">i", 1), struct.pack(">i", 5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (sent(EMPTY), b"empty"),
        (sent(LOWER_INC, ONE, FIVE), b"[1,5)"),
        (sent(UPPER_INC, ONE, FIVE), b"(1,5]"),
        (sent(LOWER_INC | UPPER_INC, ONE, FIVE), b"[1,5]"),
        (sent(LOWER_INF, FIVE), b"(,5)"),
        (sent(LOWER_INC | UPPER_INF, ONE), b"[1,)"),
        (sent(LOWER_INF | UPPER_INF), b"(,)"),
    ],
)
def test_ranges(value: bytes, text: bytes) -> None:
    assert INT4RANGE(value) == text


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (b"plain", b"plain"),
        (b"", b'""'),
        (b"2020-01-01 10:00:00", b'"2020-01-01 10:00:00"'),
        (b"a,b", b'"a,b"'),
        (b"(a)", b'"(a)"'),
        (b"[a]", b'"[a]"'),
        (b'a"b', b'"a""b"'),
        (b"a\\b", b'"a\\\\b"'),
        (b"a\tb", b'"a\tb"'),
        (b"{a}'", b"{a}'"),
    ],
)
def test_a_bound_is_quoted_as_range_out_does(bound: bytes, text: bytes) -> None:
    assert TEXTRANGE(sent(LOWER_INC | UPPER_INF, bound)) == b"[" + text + b",)"


def test_multiranges() -> None:
    decode = multirange_decoder(INT4RANGE)
    one, two = sent(LOWER_INC, ONE, FIVE), sent(LOWER_INC | UPPER_INF, FIVE)
    assert decode(b"\0\0\0\0") == b"{}"
    assert decode(b"\0\0\0\1" + sent(0, one)[1:]) == b"{[1,5)}"
    assert decode(b"\0\0\0\2" + sent(0, one, two)[1:]) == b"{[1,5),[5,)}"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x80",
        sent(EMPTY) + b"x",
        sent(LOWER_INC, ONE),
        sent(LOWER_INC, ONE, FIVE) + b"x",
        sent(LOWER_INC, ONE, FIVE)[:-1],
        b"\2\xff\xff\xff\xff\0\0\0\0",
    ],
)
def test_malformed_ranges_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"the value|a range has the flags"):
        INT4RANGE(value)
    with pytest.raises(ValueError, match=r"the value|a range has the flags"):
        multirange_decoder(INT4RANGE)(b"\0\0\0\1" + sent(0, value)[1:])


@pytest.mark.parametrize(
    "value", [b"", b"\0\0\0\1", b"\0\0\0\0x", b"\xff\xff\xff\xff", b"\0\0\0\1\xff\xff\xff\xff"]
)
def test_malformed_multiranges_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="the value"):
        multirange_decoder(INT4RANGE)(value)
