"""Values of several parts in binary: converts arrays and hstore to their final form, the rest to text."""

from typing import Final

from pgrelay.encode.binary.fields import (
    int16,
    int32,
    int64,
    read_bytes,
    read_count,
    require_end,
    uint16,
    uint32,
)
from pgrelay.encode.encodings import Converter
from pgrelay.encode.values.arrays import MAX_DIMENSIONS, check_dimensions
from pgrelay.encode.values.hstore import join_members
from pgrelay.encode.values.marks import JSON_ARRAY, JSON_OBJECT, Marks

_WEIGHTS: Final = (b"", b"C", b"B", b"A")


def array_decoder(element: Converter, marks: Marks = JSON_ARRAY, dimensions: int = 0) -> Converter:
    """A function from an array's binary form to JSON, or to other marks, nested once per dimension.

    Int32 dimensions, Int32 flags, Int32 element OID; for each dimension Int32 length and Int32 lower bound;
    then the elements in row-major order, each an Int32 size and its binary form, or -1 for NULL. `element`
    converts an element's binary form to what is written. `dimensions` is as in `arrays.array_converter`.
    """

    def decode(value: bytes) -> bytes:
        found = read_count(value, 0)
        if found > MAX_DIMENSIONS:
            raise ValueError(f"an array has {found} dimensions")
        if dimensions and found:
            check_dimensions(found, dimensions)
        lengths = [int32(value, 12 + 8 * d) for d in range(found)]
        if any(length < 1 for length in lengths):
            raise ValueError(f"an array has dimensions of {lengths} elements")
        at = 12 + 8 * found
        if not lengths:
            require_end(value, at)
            return marks.empty
        out: list[bytes] = []
        require_end(value, _write_dimension(value, at, lengths, 0, element, marks, out))
        return b"".join(out)

    return decode


def _write_dimension(
    value: bytes,
    at: int,
    lengths: list[int],
    dimension: int,
    element: Converter,
    marks: Marks,
    out: list[bytes],
) -> int:
    """Append one row of a dimension to `out`. Returns the index after its last element."""
    before = marks.opening
    for _ in range(lengths[dimension]):
        out.append(before)
        before = marks.between
        if dimension + 1 < len(lengths):
            at = _write_dimension(value, at, lengths, dimension + 1, element, marks, out)
        else:
            size = int32(value, at)
            at += 4
            out.append(marks.null if size == -1 else marks.present + element(read_bytes(value, at, size)))
            at += max(size, 0)
    out.append(marks.closing)
    return at


def hstore_decoder(string: Converter, marks: Marks = JSON_OBJECT) -> Converter:
    """A function from hstore's binary form; it has the parameters of `hstore.hstore_converter`.

    Int32 number of pairs; for each, Int32 size and bytes of the key, then of the value, or -1 for NULL.
    """

    def decode(value: bytes) -> bytes:
        at = 4
        members: list[bytes] = []
        for _ in range(read_count(value, 0)):
            size = int32(value, at)
            key = read_bytes(value, at + 4, size)
            at += 4 + size
            size = int32(value, at)
            written = marks.null if size == -1 else marks.present + string(read_bytes(value, at + 4, size))
            at += 4 + max(size, 0)
            members.append(string(key) + marks.colon + written)
        require_end(value, at)
        return join_members(members, marks)

    return decode


def int2vector_text(value: bytes) -> bytes:
    """An array of int2, printed as ``1 2 3``."""
    return _vector(value, 2)


def oidvector_text(value: bytes) -> bytes:
    """An array of oid, printed as ``1 2 3``."""
    return _vector(value, 4)


def _vector(value: bytes, size: int) -> bytes:
    number = read_count(value, 12)
    require_end(value, 20 + number * (4 + size))
    starts = [24 + i * (4 + size) for i in range(number)]
    return b" ".join([b"%d" % (int16(value, at) if size == 2 else uint32(value, at)) for at in starts])


def snapshot_text(value: bytes) -> bytes:
    """pg_snapshot: Int32 n, Int64 xmin, Int64 xmax, n Int64 xids; printed as ``10:20:10,14,15``."""
    number = read_count(value, 0)
    require_end(value, 20 + 8 * number)
    running = b",".join([b"%d" % int64(value, 20 + 8 * i) for i in range(number)])
    return b"%d:%d:%b" % (int64(value, 4), int64(value, 12), running)


def tsvector_text(value: bytes) -> bytes:
    """``'cat':3A 'it''s':1,2B``: Int32 number of lexemes; for each its text and a zero byte, Int16
    number of positions, and an Int16 per position, with its weight (A is 3, D 0) in the upper two bits.
    """
    at = 4
    lexemes: list[bytes] = []
    for _ in range(read_count(value, 0)):
        end = value.find(b"\0", at)
        if end < 0:
            raise ValueError(f"a tsvector's lexeme at byte {at} has no end")
        text = b"'" + value[at:end].replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
        positions = uint16(value, end + 1)
        at = end + 3
        if positions:
            text += b":" + b",".join([_position(uint16(value, at + 2 * i)) for i in range(positions)])
        at += 2 * positions
        lexemes.append(text)
    require_end(value, at)
    return b" ".join(lexemes)


def _position(packed: int) -> bytes:
    return b"%d%b" % (packed & 0x3FFF, _WEIGHTS[packed >> 14])
