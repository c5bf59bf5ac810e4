"""The fields of a value in binary form, network byte order. Missing or leftover bytes raise ValueError.

`at` is the index of a field's first byte.
"""

from librt.strings import read_f32_be, read_f64_be, read_i16_be, read_i32_be, read_i64_be


def sized(value: bytes, size: int) -> bytes:
    """The value, if it has exactly that many bytes."""
    if len(value) != size:
        raise ValueError(f"the value has {len(value)} bytes where its binary form has {size}")
    return value


def i16(value: bytes, at: int) -> int:
    return int(read_i16_be(value, _within(value, at, 2)))


def u16(value: bytes, at: int) -> int:
    return int(read_i16_be(value, _within(value, at, 2))) & 0xFFFF


def i32(value: bytes, at: int) -> int:
    return int(read_i32_be(value, _within(value, at, 4)))


def u32(value: bytes, at: int) -> int:
    return int(read_i32_be(value, _within(value, at, 4))) & 0xFFFF_FFFF


def i64(value: bytes, at: int) -> int:
    return int(read_i64_be(value, _within(value, at, 8)))


def f32(value: bytes, at: int) -> float:
    return float(read_f32_be(value, _within(value, at, 4)))


def f64(value: bytes, at: int) -> float:
    return float(read_f64_be(value, _within(value, at, 8)))


def take(value: bytes, at: int, size: int) -> bytes:
    """The `size` bytes from `at`."""
    if size < 0:
        raise ValueError(f"the value holds a length of {size} before byte {at}")
    at = _within(value, at, size)
    return value[at : at + size]


def count(value: bytes, at: int) -> int:
    """An Int32 that says how many fields follow."""
    number = i32(value, at)
    if number < 0:
        raise ValueError(f"the value holds a count of {number} at byte {at}")
    return number


def at_end(value: bytes, at: int) -> None:
    """Refuse bytes left over."""
    if at != len(value):
        raise ValueError(f"the value has {len(value)} bytes where its fields end at {at}")


def _within(value: bytes, at: int, size: int) -> int:
    if at + size > len(value):
        raise ValueError(f"the value ends at byte {len(value)}, inside a field of {size} bytes at {at}")
    return at
