"""Postgres's text for geometric types in binary: doubles, as ``geo_ops.c`` sends and prints them."""

from pgrelay.encode.binary.fields import float64, read_count, require_end, require_size
from pgrelay.encode.values.floats import float8_text


def point_text(value: bytes) -> bytes:
    """``(1,2)``."""
    return _points(require_size(value, 16), 0, 1)


def lseg_text(value: bytes) -> bytes:
    """``[(1,2),(3,4)]``."""
    return b"[" + _points(require_size(value, 32), 0, 2) + b"]"


def box_text(value: bytes) -> bytes:
    """``(3,4),(1,2)``."""
    return _points(require_size(value, 32), 0, 2)


def line_text(value: bytes) -> bytes:
    """``{1,2,3}``."""
    return b"{" + _doubles(require_size(value, 24), 0, 3) + b"}"


def circle_text(value: bytes) -> bytes:
    """``<(1,2),3>``."""
    return b"<" + _points(require_size(value, 24), 0, 1) + b"," + _doubles(value, 16, 1) + b">"


def polygon_text(value: bytes) -> bytes:
    """Int32 number of points, the points: ``((1,2),(3,4))``."""
    return b"(" + _counted_points(value, 0) + b")"


def path_text(value: bytes) -> bytes:
    """Byte 1 if closed, Int32 number of points, the points: ``((1,2),(3,4))``, open ``[(1,2),(3,4)]``."""
    points = _counted_points(value, 1)
    return b"(" + points + b")" if value[0] else b"[" + points + b"]"


def _counted_points(value: bytes, at: int) -> bytes:
    number = read_count(value, at)
    require_end(value, at + 4 + 16 * number)
    return _points(value, at + 4, number)


def _points(value: bytes, at: int, number: int) -> bytes:
    return b",".join([b"(" + _doubles(value, at + 16 * i, 2) + b")" for i in range(number)])


def _doubles(value: bytes, at: int, number: int) -> bytes:
    return b",".join([float8_text(float64(value, at + 8 * i)) for i in range(number)])
