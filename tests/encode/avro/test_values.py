"""The fast path writes what the converter gives, and refuses what it refuses."""

import math
import struct
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.avro.values import decimal, write_decimal, write_double
from pgrelay.encode.values.numbers import NOT_FINITE, is_number
from tests.encode.decoded_avro import whole_value

_DIGITS: Final = st.text("0123456789", min_size=1, max_size=22)
_NUMERIC: Final = st.tuples(st.sampled_from(["", "-"]), _DIGITS, st.none() | _DIGITS).map(
    lambda it: (it[0] + it[1] + ("" if it[2] is None else "." + it[2])).encode()
)
_ANYTHING: Final = st.binary(max_size=20) | st.text("-.0123456789", max_size=20).map(str.encode)


def written(value: bytes, scale: int) -> bytes:
    writer = BytesWriter()
    row = b"1." + value + b"9"
    write_decimal(writer, row, 2, 2 + len(value), scale)
    return writer.getvalue()


def written_double(value: bytes) -> float:
    writer = BytesWriter()
    write_double(writer, b"1." + value + b"9", 2, 2 + len(value))
    [found] = struct.unpack("<d", writer.getvalue())
    return float(found)


def result(convert: Callable[[], bytes]) -> bytes | str:
    """Its result, or the reason for its refusal."""
    try:
        return convert()
    except ValueError as error:
        return str(error)


@given(_NUMERIC | _ANYTHING, st.integers(0, 25))
@example(b"0.00", 2)
@example(b"-0.128", 3)
@example(b"999999999999999999", 0)
@example(b"-1", 17)
@example(b"1", 18)
@example(b"", 0)
@example(b"-", 0)
@example(b".5", 1)
@example(b"5.", 1)
@example(b"1.2.3", 2)
def test_any_text_is_written_or_refused_as_by_the_slow_way(value: bytes, scale: int) -> None:
    assert result(lambda: written(value, scale)) == result(lambda: decimal(value, scale))


@pytest.mark.parametrize("edge", [1 << bits for bits in range(59)])
def test_decimals_take_the_fewest_bytes(edge: int) -> None:
    for number in (edge - 1, edge, -edge, -edge - 1):
        body = written(str(number).encode(), 0)
        assert int.from_bytes(whole_value("bytes", body), "big", signed=True) == number
        assert body == decimal(str(number).encode(), 0)


@given(_NUMERIC | st.floats(allow_nan=False, allow_infinity=False).map(lambda it: repr(it).encode()))
@example(b"0")
@example(b"9007199254740991")
@example(b"9007199254740992")
@example(b"9007199254740993")
@example(b"0.1234567890123456")
@example(b"-0.30000000000000004")
@example(b"5e-324")
def test_a_double_is_the_nearest_to_the_decimal(value: bytes) -> None:
    assert written_double(value) == float(value)


def test_a_zero_keeps_its_sign() -> None:
    assert [math.copysign(1, written_double(text)) for text in (b"0", b"-0", b"-0.00")] == [1, -1, -1]


@given(_ANYTHING)
@example(b"-")
@example(b"1.")
@example(b".5")
@example(b"1e5")
@example(b"NaN")
def test_what_is_no_decimal_is_no_double(value: bytes) -> None:
    if is_number(value) or value in NOT_FINITE:
        assert written_double(value) == pytest.approx(float(value), rel=0, abs=0, nan_ok=True)
    else:
        with pytest.raises(ValueError, match="is not a number as Postgres prints one"):
            written_double(value)
