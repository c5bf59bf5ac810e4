"""Whole numbers from text, digit by digit if the code is compiled."""

from typing import Final

from mypy_extensions import i64

from pgrelay.encode.refusal import refusal

# Compiled, a loop over the bytes is the fastest way through them; interpreted, the slowest.
COMPILED: Final = not __file__.endswith(".py")

ZERO: Final = ord("0")
MINUS: Final = ord("-")

# So many digits always fit in 64 bits.
SAFE: Final = 18

_DIGITS: Final = "made of digits"


def number(text: bytes, start: i64, end: i64) -> i64:
    """The number with 1 to 18 digits from `start` to before `end`."""
    if end <= start or end - start > SAFE or end > len(text):
        raise refusal(text[start:end], _DIGITS)
    if not COMPILED:
        digits = text[start:end]
        if not digits.isdigit():
            raise refusal(digits, _DIGITS)
        return int(digits)
    found: i64 = 0
    for index in range(start, end):
        byte: i64 = text[index]
        digit: i64 = byte - ZERO
        if digit < 0 or digit > 9:
            raise refusal(text[start:end], _DIGITS)
        found = found * 10 + digit
    return found


def integer(text: bytes, start: i64, end: i64) -> i64:
    """The 64-bit integer in `text[start:end]`. Raises ValueError for any other text."""
    if end <= start:
        raise refusal(text[start:end], "an integer")
    first: i64 = start + 1 if text[start] == MINUS else start
    if end - first <= SAFE:
        found = number(text, first, end)
        return -found if first > start else found
    if not text[first:end].isdigit():
        raise refusal(text[start:end], "an integer")
    large = int(text[start:end])
    if not -(1 << 63) <= large < 1 << 63:
        raise refusal(text[start:end], "an integer of 64 bits")
    return large
