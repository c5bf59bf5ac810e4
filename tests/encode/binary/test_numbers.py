"""Postgres's text of numbers in binary."""

import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.binary.numbers import (
    bits_text,
    double_text,
    int2_text,
    int4_text,
    int8_text,
    money_text,
    numeric_text,
    real_text,
    unsigned4_text,
    unsigned8_text,
)
from pgrelay.encode.encodings import Converter


@pytest.mark.parametrize(
    ("text", "layout", "numbers"),
    [
        (int2_text, ">h", [-(2**15), -1, 0, 2**15 - 1]),
        (int4_text, ">i", [-(2**31), -1, 0, 2**31 - 1]),
        (int8_text, ">q", [-(2**63), -1, 0, 2**63 - 1]),
        (unsigned4_text, ">I", [0, 2**31, 2**32 - 1]),
        (unsigned8_text, ">Q", [0, 2**63, 2**64 - 1]),
    ],
)
def test_integers(text: Converter, layout: str, numbers: list[int]) -> None:
    for number in numbers:
        packed = struct.pack(layout, number)
        assert text(packed) == b"%d" % number
        for wrong in (packed[1:], packed + b"\0", b""):
            with pytest.raises(ValueError, match="where its binary form has"):
                text(wrong)


def test_floats() -> None:
    assert double_text(struct.pack(">d", 1e15)) == b"1e+15"
    assert real_text(struct.pack(">f", 1e6)) == b"1e+06"
    with pytest.raises(ValueError, match="has 4 bytes where its binary form has 8"):
        double_text(b"\0\0\0\0")
    with pytest.raises(ValueError, match="has 8 bytes where its binary form has 4"):
        real_text(bytes(8))


class TestNumeric:
    """The examples were written by numeric_send of PostgreSQL 18."""

    @pytest.mark.parametrize(
        ("sent", "text"),
        [
            ("0000 0000 0000 0000", b"0"),
            ("0000 0000 0000 0002", b"0.00"),
            ("0002 0000 4000 0001 0001 1388", b"-1.5"),
            ("0003 0001 0000 0004 0001 0929 1a85", b"12345.6789"),
            ("0001 0005 0000 0000 0001", b"100000000000000000000"),
            ("0001 ffff 0000 0004 0001", b"0.0001"),
            ("0001 fffe 0000 0008 0001", b"0.00000001"),
            ("0001 0000 0000 0003 0007", b"7.000"),
            ("0000 0000 c000 0000", b"NaN"),
            ("0000 0000 d000 0020", b"Infinity"),
            ("0000 0000 f000 0020", b"-Infinity"),
        ],
    )
    def test_values_that_a_server_sent(self, sent: str, text: bytes) -> None:
        assert numeric_text(bytes.fromhex(sent)) == text

    @given(st.decimals(allow_nan=False, allow_infinity=False))
    def test_every_decimal_reads_back(self, number: Decimal) -> None:
        text = f"{number:f}".encode()
        assert numeric_text(send_numeric(text)) == (text.lstrip(b"-") if number == 0 else text)

    @pytest.mark.parametrize(
        ("sent", "error"),
        [
            ("", "the value ends at byte 0"),
            ("0001 0000 0000 0000", "has 8 bytes where its binary form has 10"),
            ("0001 0000 0000 0000 0001 0002", "has 12 bytes where its binary form has 10"),
            ("0001 0000 0001 0000 0001", "the sign 0x0001"),
            ("0001 0000 0000 0000 2710", "the digit 10000"),
        ],
    )
    def test_a_malformed_numeric_is_refused(self, sent: str, error: str) -> None:
        with pytest.raises(ValueError, match=error):
            numeric_text(bytes.fromhex(sent))


def send_numeric(text: bytes) -> bytes:
    """As numeric_send does: groups of four digits on both sides of the point, without outer zeros."""
    negative = text.startswith(b"-")
    whole, _, fraction = text.lstrip(b"-").partition(b".")
    whole = whole.rjust(-(-len(whole) // 4) * 4, b"0")
    digits = whole + fraction.ljust(-(-len(fraction) // 4) * 4, b"0")
    groups = [int(digits[i : i + 4]) for i in range(0, len(digits), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    sign = 0x4000 if negative and groups else 0
    header = struct.pack(">HhHH", len(groups), weight if groups else 0, sign, len(fraction))
    return header + b"".join(struct.pack(">H", group) for group in groups)


@pytest.mark.parametrize(
    ("cents", "text"),
    [
        (0, b"$0.00"),
        (-1, b"-$0.01"),
        (123_456, b"$1,234.56"),
        (-(2**63), b"-$92,233,720,368,547,758.08"),
        (2**63 - 1, b"$92,233,720,368,547,758.07"),
    ],
)
def test_money(cents: int, text: bytes) -> None:
    assert money_text(struct.pack(">q", cents)) == text


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("00000000", b""),
        ("00000001 80", b"1"),
        ("00000003 a0", b"101"),
        ("00000008 00", b"00000000"),
        ("0000000b aaa0", b"10101010101"),
    ],
)
def test_bits(sent: str, text: bytes) -> None:
    assert bits_text(bytes.fromhex(sent)) == text


@pytest.mark.parametrize("sent", ["", "00000009 ff", "00000008 ffff", "ffffffff"])
def test_malformed_bits_are_refused(sent: str) -> None:
    with pytest.raises(ValueError, match="the value"):
        bits_text(bytes.fromhex(sent))
