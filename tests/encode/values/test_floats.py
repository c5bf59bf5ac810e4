"""The digits of floats, as PostgreSQL prints them.

The examples were printed by PostgreSQL 18; ``tests/integration/test_types.py`` asks a server for more.
"""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.values.floats import float4_text, float8_text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, b"0"),
        (-0.0, b"-0"),
        (1.0, b"1"),
        (-1.5, b"-1.5"),
        (0.1, b"0.1"),
        (0.0001, b"0.0001"),
        (0.00001, b"1e-05"),
        (1e14, b"100000000000000"),
        (123_456_789_012_345.6, b"123456789012345.6"),
        (1e15, b"1e+15"),
        (-1_234_567_890_123_456.0, b"-1.234567890123456e+15"),
        (1_125_899_906_842_623.9, b"1.1258999068426239e+15"),
        (9_007_199_254_740_992.0, b"9.007199254740992e+15"),
        (1e20, b"1e+20"),
        (1.7976931348623157e308, b"1.7976931348623157e+308"),
        (5e-324, b"5e-324"),
        (2.0**-44, b"5.684341886080802e-14"),
        (math.nan, b"NaN"),
        (math.inf, b"Infinity"),
        (-math.inf, b"-Infinity"),
    ],
)
def test_double_precision(number: float, text: bytes) -> None:
    assert float8_text(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e22, b"1e+22"),
        (1e23, b"9.999999999999999e+22"),
        (-1e23, b"-9.999999999999999e+22"),
        (5e22, b"4.9999999999999996e+22"),
        (8e23, b"7.999999999999999e+23"),
        (9.92e23, b"9.920000000000001e+23"),
        (5.12e25, b"5.1199999999999996e+25"),
    ],
)
def test_a_decimal_midway_between_two_doubles_gets_another_digit(number: float, text: bytes) -> None:
    assert float8_text(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, b"0"),
        (-0.0, b"-0"),
        (1.0, b"1"),
        (-0.1, b"-0.1"),
        (100_000.0, b"100000"),
        (123_456.0, b"123456"),
        (1e6, b"1e+06"),
        (1_234_567.0, b"1.234567e+06"),
        (1e-4, b"0.0001"),
        (1e-5, b"1e-05"),
        (16_777_216.0, b"1.6777216e+07"),
        (2.0**31, b"2.1474836e+09"),
        (8_589_973_504.0, b"8.589974e+09"),
        (2.0**-126, b"1.1754944e-38"),
        (3.4028234663852886e38, b"3.4028235e+38"),
        (2.0**-149, b"1e-45"),
        (2.0**-148, b"3e-45"),
        (9.860761315262648e-32, b"9.8607613e-32"),
        (1_055_594_053_632.0, b"1.05559405e+12"),
        (2.0**-96, b"1.2621775e-29"),  # 1.2621774e-29 is nearer, but not to this real
        (math.nan, b"NaN"),
        (-math.inf, b"-Infinity"),
    ],
)
def test_real(number: float, text: bytes) -> None:
    assert float4_text(as_real(number)) == text


@given(st.floats(allow_nan=False))
def test_a_double_reads_back_as_itself(number: float) -> None:
    read = float(float8_text(number))
    assert (read, math.copysign(1, read)) == (number, math.copysign(1, number))


@given(st.floats(width=32, allow_nan=False))
def test_a_real_reads_back_as_itself(number: float) -> None:
    read = as_real(float(float4_text(number)))
    assert (read, math.copysign(1, read)) == (number, math.copysign(1, number))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_has_pythons_number_of_digits_except_at_a_midpoint(number: float) -> None:
    ours, pythons = significant_digits(float8_text(number).decode()), significant_digits(repr(number))
    assert len(ours) == len(pythons) or 2.0**53 <= abs(number) < 1e40


def significant_digits(text: str) -> str:
    return text.lower().partition("e")[0].replace(".", "").strip("-0")


def as_real(number: float) -> float:
    """The double of the same value as the nearest real."""
    return float(struct.unpack(">f", struct.pack(">f", number))[0])
