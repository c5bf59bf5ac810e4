"""The fields of a value in binary form, network byte order. Missing or leftover bytes raise ValueError.

`at` is the index of a field's first byte.
"""

from librt.strings import read_f32_be, read_f64_be, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64


def require_size(value: bytes, size: i64) -> bytes:
    """The value, if it has exactly that many bytes."""
    if len(value) != size:
        raise ValueError(f"the value has {len(value)} bytes where its binary form has {size}")
    return value


def int16(value: bytes, at: i64) -> i64:
    return i64(read_i16_be(value, _within(value, at, 2)))


def uint16(value: bytes, at: i64) -> i64:
    return i64(read_i16_be(value, _within(value, at, 2))) & 0xFFFF


def int32(value: bytes, at: i64) -> i64:
    return i64(read_i32_be(value, _within(value, at, 4)))


def uint32(value: bytes, at: i64) -> i64:
    return i64(read_i32_be(value, _within(value, at, 4))) & 0xFFFF_FFFF


def int64(value: bytes, at: i64) -> i64:
    return read_i64_be(value, _within(value, at, 8))


def float32(value: bytes, at: i64) -> float:
    return read_f32_be(value, _within(value, at, 4))


def float64(value: bytes, at: i64) -> float:
    return read_f64_be(value, _within(value, at, 8))


def read_bytes(value: bytes, at: i64, size: i64) -> bytes:
    """The `size` bytes from `at`."""
    if size < 0:
        raise ValueError(f"the value holds a length of {size} before byte {at}")
    at = _within(value, at, size)
    return value[at : at + size]


def read_count(value: bytes, at: i64) -> i64:
    """An Int32 that says how many fields follow."""
    number = int32(value, at)
    if number < 0:
        raise ValueError(f"the value holds a count of {number} at byte {at}")
    return number


def require_end(value: bytes, at: i64) -> None:
    """Refuse bytes left over."""
    if at != len(value):
        raise ValueError(f"the value has {len(value)} bytes where its fields end at {at}")


def _within(value: bytes, at: i64, size: i64) -> i64:
    if at + size > len(value):
        raise ValueError(f"the value ends at byte {len(value)}, inside a field of {size} bytes at {at}")
    return at
