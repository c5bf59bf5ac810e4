"""Whole numbers out of text, digit by digit where the code is compiled."""

from typing import Final

from mypy_extensions import i64

from pgrelay.encode.refusal import refusal

# Compiled, a loop over the bytes is the fastest way through them; interpreted, the slowest.
COMPILED: Final = not __file__.endswith(".py")

ZERO: Final = ord("0")
MINUS: Final = ord("-")

# As many digits never leave 64 bits.
SAFE: Final = 18


def number(text: bytes, start: i64, end: i64) -> i64:
    """The number whose 1 to 18 digits stand from `start` to before `end`."""
    if end <= start or end - start > SAFE or end > len(text):
        raise refusal(text, "of the digits that should stand in it")
    if not COMPILED:
        digits = text[start:end]
        if not digits.isdigit():
            raise refusal(text, "of the digits that should stand in it")
        return int(digits)
    found: i64 = 0
    for index in range(start, end):
        digit: i64 = text[index] - ZERO
        if digit < 0 or digit > 9:
            raise refusal(text, "of the digits that should stand in it")
        found = found * 10 + digit
    return found


def integer(text: bytes) -> i64:
    """The integer that the whole text is, of 64 bits. Raises ValueError for any other text."""
    size: i64 = len(text)
    if size == 0:
        raise refusal(text, "an integer")
    start: i64 = 1 if text[0] == MINUS else 0
    if size - start <= SAFE:
        found = number(text, start, size)
        return -found if start else found
    if not text[start:].isdigit():
        raise refusal(text, "an integer")
    large = int(text)
    if not -(1 << 63) <= large < 1 << 63:
        raise refusal(text, "an integer of 64 bits")
    return large
