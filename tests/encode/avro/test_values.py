"""The fast path writes what the converter gives, and refuses what it refuses."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.avro.values import decimal, write_decimal
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
def test_any_text_is_written_or_refused_as_by_the_converter(value: bytes, scale: int) -> None:
    assert result(lambda: written(value, scale)) == result(lambda: decimal(scale)(value))


@pytest.mark.parametrize("edge", [1 << bits for bits in range(59)])
def test_decimals_take_the_fewest_bytes(edge: int) -> None:
    for number in (edge - 1, edge, -edge, -edge - 1):
        body = written(str(number).encode(), 0)
        assert int.from_bytes(whole_value("bytes", body), "big", signed=True) == number
        assert body == decimal(0)(str(number).encode())
