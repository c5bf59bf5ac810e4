"""Whole numbers from text, without an object if the code is compiled."""

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from pgrelay.encode.invalid_value import invalid_value

# Compiled, arithmetic on the bytes is the fastest; interpreted, the slowest.
COMPILED: Final = not __file__.endswith(".py")

ZERO: Final = ord("0")
MINUS: Final = ord("-")
_POINT: Final = ord(".")

# This many digits always fit in 64 bits.
SAFE_DIGITS: Final = 18

_DIGITS: Final = "made of digits"

# A word of eight digits, and parts of such words.
_ZEROS: Final[i64] = 0x3030_3030_3030_3030
_LOW_NIBBLES: Final[i64] = 0x0F0F_0F0F_0F0F_0F0F
_SIXES: Final[i64] = 0x0606_0606_0606_0606
_PAIRS: Final[i64] = 0x00FF_00FF_00FF_00FF
_FOURS: Final[i64] = 0x0000_FFFF_0000_FFFF
_EIGHT: Final[i64] = 0xFFFF_FFFF


def number(text: bytes, start: i64, end: i64) -> i64:
    """The number with 1 to 18 digits from `start` to before `end`."""
    size: i64 = end - start
    if size <= 0 or size > SAFE_DIGITS or end > len(text):
        raise invalid_value(text[start:end], _DIGITS)
    if not COMPILED:
        digits = text[start:end]
        if not digits.isdigit():
            raise invalid_value(digits, _DIGITS)
        return int(digits)
    if size <= 8 and start + 8 <= len(text):
        few = _few_digits(read_i64_le(text, start), size)
        if few < 0:
            raise invalid_value(text[start:end], _DIGITS)
        return few
    found: i64 = 0
    for index in range(start, end):
        byte: i64 = text[index]
        digit: i64 = byte - ZERO
        if digit < 0 or digit > 9:
            raise invalid_value(text[start:end], _DIGITS)
        found = found * 10 + digit
    return found


def _few_digits(word: i64, size: i64) -> i64:
    """The number of the `size` digits, 1 to 8, in the lowest bytes of a word; -1 if they are no digits.

    The first digit is in the lowest byte. Neighbours are joined three times: digits to pairs, pairs to fours.
    """
    digits: i64 = (word ^ _ZEROS) << (64 - 8 * size)  # zeros come before the first
    if digits & _LOW_NIBBLES != digits or (digits + _SIXES) & _LOW_NIBBLES != digits + _SIXES:
        return -1
    pairs: i64 = (digits * 10 + (digits >> 8)) & _PAIRS
    fours: i64 = (pairs * 100 + (pairs >> 16)) & _FOURS
    return (fours * 10_000 + (fours >> 32)) & _EIGHT


def integer(text: bytes, start: i64, end: i64) -> i64:
    """The 64-bit integer in `text[start:end]`. Raises ValueError for any other text."""
    if end <= start:
        raise invalid_value(text[start:end], "an integer")
    first: i64 = start + 1 if text[start] == MINUS else start
    if end - first <= SAFE_DIGITS:
        found = number(text, first, end)
        return -found if first > start else found
    if not text[first:end].isdigit():
        raise invalid_value(text[start:end], "an integer")
    large = int(text[start:end])
    if not -(1 << 63) <= large < 1 << 63:
        raise invalid_value(text[start:end], "an integer of 64 bits")
    return large


def few_decimals(text: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Of a decimal without a sign: the number that its digits make, and how many are after the point.

    -1 and 0 for any other text, for more than `SAFE_DIGITS` characters, and always if interpreted.
    """
    if not COMPILED or end <= start or end - start > SAFE_DIGITS:
        return -1, 0
    number: i64 = 0
    point: i64 = -1
    for index in range(start, end):
        byte: i64 = text[index]
        if ZERO <= byte <= ZERO + 9:
            number = number * 10 + byte - ZERO
        elif byte == _POINT and point < 0 and start < index < end - 1:
            point = index
        else:
            return -1, 0
    return number, 0 if point < 0 else end - 1 - point
