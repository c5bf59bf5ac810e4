"""Whole numbers from text."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.values.digits import COMPILED, SAFE_DIGITS, few_decimals, integer, number

_SURROUNDINGS: Final = st.binary(max_size=10)
_TEXT: Final = st.text("0123456789", max_size=20).map(str.encode) | st.binary(max_size=SAFE_DIGITS)


def result(convert: Callable[[], int]) -> int | None:
    """Its result; None if it refuses."""
    try:
        return convert()
    except ValueError:
        return None


@given(_TEXT, _SURROUNDINGS, _SURROUNDINGS)
def test_a_number_is_read_from_its_digits_only(text: bytes, before: bytes, after: bytes) -> None:
    expected = int(text) if text.isdigit() and len(text) <= SAFE_DIGITS else None
    row = before + text + after
    assert result(lambda: number(row, len(before), len(before) + len(text))) == expected


@pytest.mark.parametrize("size", range(1, 9))
def test_every_other_byte_is_refused_at_every_position(size: int) -> None:
    for at in range(size):
        for byte in range(256):
            text = bytearray(b"12345678"[:size])
            text[at] = byte
            expected = int(text) if text.isdigit() else None
            row = bytes(text) + b"\xff" * 8
            assert result(partial(number, row, 0, size)) == expected, row


@given(st.integers(-(1 << 64), 1 << 64), _SURROUNDINGS, _SURROUNDINGS)
def test_an_integer_of_64_bits_keeps_its_sign(value: int, before: bytes, after: bytes) -> None:
    text = b"%d" % value
    row = before + text + after
    expected = value if -(1 << 63) <= value < 1 << 63 else None
    assert result(lambda: integer(row, len(before), len(before) + len(text))) == expected


@pytest.mark.parametrize("text", [b"", b"-", b"--1", b"+1", b" 1", b"1 ", b"1_0", b"\xd9\xa1"])
def test_other_text_is_refused(text: bytes) -> None:
    assert result(lambda: integer(text, 0, len(text))) is None


@given(st.from_regex(rb"[0-9]{1,12}(\.[0-9]{1,12})?", fullmatch=True) | _TEXT, _SURROUNDINGS, _SURROUNDINGS)
def test_a_decimal_of_few_digits_is_read_or_left(text: bytes, before: bytes, after: bytes) -> None:
    found, places = few_decimals(before + text + after, len(before), len(before) + len(text))
    whole, point, fraction = text.partition(b".")
    is_decimal = whole.isdigit() and (fraction.isdigit() if point else True)
    if COMPILED and is_decimal and len(text) <= SAFE_DIGITS:
        assert (found, places) == (int(whole + fraction), len(fraction))
    else:
        assert (found, places) == (-1, 0)
