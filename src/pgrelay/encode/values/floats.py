"""The text of floats: the digits that PostgreSQL prints for ``real`` and ``double precision``.

Since version 12 it prints the shortest decimal that reads back as the same number (manual,
"Floating-Point Types"), as Python's repr does, but with two differences (``src/common/d2s.c``):

- A decimal that lies exactly midway between two floats reads back right only if the reader rounds half to
  even. PostgreSQL doesn't rely on that and prints another: 9.999999999999999e+22 for 1e23.
- Exponents begin at 1e+15 for double precision and at 1e+06 for real.
"""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

_FIXED_FROM: Final = 1e-4
_FLOAT4_FIXED_DIGITS: Final = 6
_FLOAT4_NORMAL_FROM: Final = 2.0**-126
_FLOAT8_FIXED_DIGITS: Final = 15
_FLOAT8_FIXED_BELOW: Final = 1e15

# Where a shortest decimal can lie midway between two doubles. It has at most 17 digits before its power of
# ten, 10^k with k > 0: without one, the number itself would be as short. It is an odd multiple of a power of
# two with the mantissa's 53 bits and one or two more, so 5^k < 2^55, which ends at k = 23.
_MIDPOINTS_FROM: Final = 2.0**53
_MIDPOINTS_BELOW: Final = 1e40


def float8_text(number: float) -> bytes:
    """The text of a double precision."""
    size = abs(number)
    if _FIXED_FROM <= size < _FLOAT8_FIXED_BELOW or size == 0:
        return repr(number).removesuffix(".0").encode()
    if not math.isfinite(number):
        return _not_finite(number)
    if size < _FIXED_FROM or size >= _MIDPOINTS_BELOW:
        return repr(number).encode()
    return _signed(number, _layout(_float8_shortest(size), _FLOAT8_FIXED_DIGITS))


def float4_text(number: float) -> bytes:
    """The text of a real, given as the double of the same value."""
    size = abs(number)
    if size == 0 or not math.isfinite(number):
        return float8_text(number)
    return _signed(number, _layout(_float4_shortest(size), _FLOAT4_FIXED_DIGITS))


def _float8_shortest(size: float) -> str:
    """The shortest scientific form, for 1e15 to 1e40, to which this double is the only nearest one."""
    text = f"{size:.15e}"
    if size < _MIDPOINTS_FROM:
        return text if float(text) == size else f"{size:.16e}"
    text = repr(size)
    below = int(size) + int(math.nextafter(size, 0.0))
    above = int(size) + int(math.nextafter(size, math.inf))
    if 2 * int(Decimal(text)) in (below, above):
        return _shortest_between(size, Fraction(below, 2), Fraction(above, 2), 1)
    return text if "e" in text else f"{size:.16e}"


def _float4_shortest(size: float) -> str:
    """The shortest scientific form to which this real is the only nearest one."""
    mantissa, exponent = math.frexp(size)
    at_power = mantissa == 0.5
    # Half the distance to the neighbours; below a power of two they are twice as dense. Both bounds
    # fit a double, so comparing doubles is exact unless a candidate's double is a bound itself.
    low = size - math.ldexp(1.0, max(exponent - 26 if at_power else exponent - 25, -150))
    high = size + math.ldexp(1.0, max(exponent - 25, -150))
    # Six digits survive a round trip through a normal real: were there a shorter form, six would show it.
    for digits in range(6 if size >= _FLOAT4_NORMAL_FROM else 1, 9):
        text = f"{size:.{digits - 1}e}"
        near = float(text)
        if low < near < high:
            return text
        if at_power or near in (low, high):
            return _shortest_between(size, Fraction(low), Fraction(high), digits)
    return f"{size:.8e}"


def _shortest_between(size: float, low: Fraction, high: Fraction, fewest: int) -> str:
    """The scientific form strictly between the bounds with the fewest digits, the nearest if several."""
    for digits in range(fewest, 17):
        nearest = f"{size:.{digits - 1}e}"
        if low < Fraction(nearest) < high:
            return nearest
        mantissa, _, exponent = nearest.partition("e")
        # The lower bound can be nearer than the upper, so the next one up may lie within.
        above = f"{int(mantissa.replace('.', '')) + 1}e{int(exponent) - digits + 1}"
        if low < Fraction(above) < high:
            return f"{float(above):.{digits - 1}e}"
    return f"{size:.16e}"


def _layout(scientific: str, fixed_digits: int) -> bytes:
    """PostgreSQL's layout of ``d.ddde±xx``: plain if the exponent is -4 to `fixed_digits` - 1."""
    mantissa, _, exponent = scientific.partition("e")
    digits = mantissa.replace(".", "").rstrip("0")
    point = int(exponent) + 1
    if not -4 < point <= fixed_digits:
        fraction = "." + digits[1:] if len(digits) > 1 else ""
        text = f"{digits[0]}{fraction}e{point - 1:+03d}"
    elif point <= 0:
        text = "0." + "0" * -point + digits
    elif len(digits) <= point:
        text = digits.ljust(point, "0")
    else:
        text = digits[:point] + "." + digits[point:]
    return text.encode()


def _signed(number: float, text: bytes) -> bytes:
    return b"-" + text if number < 0 else text


def _not_finite(number: float) -> bytes:
    if math.isnan(number):
        return b"NaN"
    return b"Infinity" if number > 0 else b"-Infinity"
