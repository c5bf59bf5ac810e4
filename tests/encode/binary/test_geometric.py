"""Postgres's text of geometric types in binary."""

import math
import struct

import pytest

from pgrelay.encode.binary.geometric import (
    box_text,
    circle_text,
    line_text,
    lseg_text,
    path_text,
    point_text,
    polygon_text,
)
from pgrelay.encode.encodings import Converter


def doubles(*numbers: float) -> bytes:
    return struct.pack(f">{len(numbers)}d", *numbers)


def test_geometric_types() -> None:
    assert point_text(doubles(1, 2)) == b"(1,2)"
    assert lseg_text(doubles(1, 2, 3, 4)) == b"[(1,2),(3,4)]"
    assert box_text(doubles(3, 4, 1, 2)) == b"(3,4),(1,2)"
    assert line_text(doubles(1, 2, 3)) == b"{1,2,3}"
    assert circle_text(doubles(1, 2, 3)) == b"<(1,2),3>"
    assert polygon_text(b"\0\0\0\2" + doubles(1, 2, 3, 4)) == b"((1,2),(3,4))"
    assert path_text(b"\1\0\0\0\2" + doubles(1, 2, 3, 4)) == b"((1,2),(3,4))"
    assert path_text(b"\0\0\0\0\2" + doubles(1, 2, 3, 4)) == b"[(1,2),(3,4)]"


def test_coordinates_print_like_double_precision() -> None:
    assert point_text(doubles(1e15, -math.inf)) == b"(1e+15,-Infinity)"
    assert point_text(doubles(-0.0, 0.1)) == b"(-0,0.1)"


@pytest.mark.parametrize(
    "shape", [point_text, lseg_text, box_text, line_text, circle_text, polygon_text, path_text]
)
@pytest.mark.parametrize(
    "value", [b"", b"\0", b"\0\0\0\2" + doubles(1, 2), b"\xff" * 20, doubles(1, 2, 3, 4, 5)]
)
def test_malformed_shapes_are_refused(shape: Converter, value: bytes) -> None:
    with pytest.raises(ValueError, match="the value"):
        shape(value)
