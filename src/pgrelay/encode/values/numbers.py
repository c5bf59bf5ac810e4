"""JSON forms of numbers, from Postgres's text."""

import re
from binascii import b2a_base64
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from pgrelay.encode.encodings import Converter
from pgrelay.encode.invalid_value import invalid_value
from pgrelay.encode.values.digits import COMPILED, MINUS, ZERO
from pgrelay.encode.values.plain import copy

# What float8out and numeric_out print is a valid JSON number, except for these three.
_NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?").fullmatch
NOT_FINITE: Final = (b"NaN", b"Infinity", b"-Infinity")

_POINT: Final = ord(".")
_E: Final = ord("e")
_PLUS: Final = ord("+")

# int() refuses longer texts, whose quadratic cost could be used against us; numeric has up to 147,455 digits.
_INT_DIGITS: Final = 4000


def is_number(value: bytes) -> bool:
    """Whether `value` is what Postgres prints for a finite float or numeric."""
    return _is_number(value, 0, len(value))


def _is_number(data: bytes, start: i64, end: i64) -> bool:
    if not COMPILED:
        return _NUMBER(data, start, end) is not None
    at: i64 = start
    if at < end and data[at] == MINUS:
        at += 1
    at = _past_digits(data, at, end)
    if 0 < at < end and data[at] == _POINT:
        at = _past_digits(data, at + 1, end)
    if 0 < at < end - 1 and data[at] == _E and (data[at + 1] == _PLUS or data[at + 1] == MINUS):
        at = _past_digits(data, at + 2, end)
    return at == end


def _past_digits(data: bytes, start: i64, end: i64) -> i64:
    """The index after the digits that begin at `start`; -1 if there are none."""
    at: i64 = start
    while at < end:
        byte: i64 = data[at]
        if byte < ZERO or byte > ZERO + 9:
            break
        at += 1
    return at if at > start else -1


def json_number(value: bytes) -> bytes:
    """A JSON number; or one of the strings NaN, Infinity and -Infinity, which JSON has no numbers for."""
    if is_number(value):
        return value
    if value in NOT_FINITE:
        return b'"' + value + b'"'
    raise invalid_value(value, "a number as Postgres prints one")


def write_json_number(writer: BytesWriter, data: bytes, start: i64, end: i64) -> bool:
    """Append `json_number` of `data[start:end]`. False, and nothing appended, if that is not a number."""
    if not _is_number(data, start, end):
        return False
    copy(writer, data, start, end)
    return True


def money_digits(value: bytes) -> bytes:
    """A JSON string of `money_amount`."""
    return b'"' + money_amount(value) + b'"'


def money_amount(value: bytes) -> bytes:
    """The amount's sign, digits and point, from ``-$1,234.56`` (lc_monetary = C)."""
    amount = value.translate(None, b"$,")
    if not value.startswith((b"$", b"-$")) or amount[-3:-2] != b"." or not is_number(amount):
        raise invalid_value(value, "an amount as Postgres prints it with lc_monetary = C")
    return amount


def declared_precision(typmod: int) -> int:
    """The precision in numeric's type modifier, 1 to 1000."""
    return (typmod - 4) >> 16


def declared_scale(typmod: int) -> int:
    """The scale in numeric's type modifier, -1000 to 1000.

    ``((precision << 16) | (scale & 0x7ff)) + 4``, scale in 11 bits of two's complement (PostgreSQL's
    ``src/backend/utils/adt/numeric.c``, make_numeric_typmod).
    """
    return (((typmod - 4) & 0x7FF) ^ 1024) - 1024


def decimal_base64(scale: int) -> Converter:
    """Values of a numeric with that declared scale: the base64 string of value * 10^scale.

    The integer is big-endian two's complement in as few bytes as hold it, as Kafka Connect's Decimal.
    """

    def convert(value: bytes) -> bytes:
        if value in NOT_FINITE:
            return b'"' + value + b'"'
        return b'"' + b2a_base64(integer_bytes(unscaled(value, scale)), newline=False) + b'"'

    return convert


def unscaled(value: bytes, scale: int) -> int:
    """value * 10^scale, for a numeric with that declared scale."""
    digits, fraction = _digits(value)
    if fraction < scale:
        digits += b"0" * (scale - fraction)
    elif fraction > scale:
        # A negative scale: the server has rounded the value to that many zeros.
        kept = digits[: scale - fraction]
        if digits[scale - fraction :].strip(b"0"):
            raise invalid_value(value, f"rounded to the declared scale of {scale}")
        digits = kept
    return _integer(digits)


def variable_decimal(value: bytes) -> bytes:
    """A numeric without a declared scale: ``{"scale":2,"value":"<base64>"}``, value = unscaled / 10^scale."""
    if value in NOT_FINITE:
        return b'"' + value + b'"'
    digits, fraction = _digits(value)
    number = b2a_base64(integer_bytes(_integer(digits)), newline=False)
    return b'{"scale":%d,"value":"%b"}' % (fraction, number)


def _digits(value: bytes) -> tuple[bytes, int]:
    """The sign and digits without the decimal point, and how many digits were after it."""
    if not is_number(value):
        raise invalid_value(value, "a numeric as Postgres prints one")
    whole, _, fraction = value.partition(b".")
    return whole + fraction, len(fraction)


def _integer(digits: bytes) -> int:
    """The integer of a sign and any number of digits; 0 for none, if a negative scale took them all."""
    if len(digits) <= _INT_DIGITS:
        return int(digits) if digits.strip(b"-") else 0
    if digits.startswith(b"-"):
        return -_integer(digits[1:])
    half = len(digits) // 2
    shift: int = 10**half
    return _integer(digits[:-half]) * shift + _integer(digits[-half:])


def integer_bytes(number: int) -> bytes:
    """The integer in big-endian two's complement, in as few bytes as hold it."""
    bits = number.bit_length() if number >= 0 else (~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
