"""TupleData in the manual's layout: the number of columns, then each one's kind and perhaps its value."""

import pytest

from pgrelay.errors import ProtocolError
from pgrelay.wire.cursor import Cursor
from pgrelay.wire.tuples import TupleData
from tests.wire import build
from tests.wire.build import UNCHANGED, Binary
from tests.wire.layout import layout


def read(data: bytes) -> TupleData:
    cursor = Cursor("Insert", data)
    row = TupleData.read(cursor)
    cursor.require_end()
    return row


def test_a_column_of_each_kind() -> None:
    data = layout("""
        00 04                       Int16 Number of columns.
        "n"                         Byte1('n') Identifies the data as NULL value.
        "u"                         Byte1('u') Identifies unchanged TOASTed value (the value is not sent).
        "t"                         Byte1('t') Identifies the data as text formatted value.
        00 00 00 02                 Int32 Length of the column value.
        "42"                        Byten The value of the column, in text format.
        "b"                         Byte1('b') Identifies the data as binary formatted value.
        00 00 00 04                 Int32 Length of the column value.
        00 00 00 2A                 Byten The value of the column, in binary format.
    """)
    assert read(data) == TupleData(b"nutb", (None, None, b"42", b"\0\0\0\x2a"))
    assert build.tuple_data([None, UNCHANGED, "42", Binary(b"\0\0\0\x2a")]) == data


def test_an_unchanged_value_is_not_a_null() -> None:
    assert read(build.tuple_data([UNCHANGED])) != read(build.tuple_data([None]))


def test_an_empty_text_is_neither_null_nor_unchanged() -> None:
    assert read(build.tuple_data([""])) == TupleData(b"t", (b"",))


def test_a_binary_value_is_not_a_text() -> None:
    assert read(build.tuple_data([Binary(b"42")])) != read(build.tuple_data(["42"]))


def test_a_table_may_have_no_columns() -> None:
    assert read(build.tuple_data([])) == TupleData(b"", ())


def test_a_table_may_have_1600_columns() -> None:
    """MaxHeapAttributeNumber."""
    assert read(build.tuple_data(["x"] * 1600)) == TupleData(b"t" * 1600, (b"x",) * 1600)


def test_values_stay_bytes() -> None:
    assert read(build.tuple_data([b"\xff\0"])).values == (b"\xff\0",)


REFUSED = {
    "a negative number of columns": ("FF FF", "Insert has -1 columns before offset 2"),
    "an unknown kind": (
        '00 02 "n" "x"',
        "Insert has a column of unknown kind 'x' at offset 3",
    ),
    "a missing column": (
        '00 02 "n"',
        "Insert is truncated: kind of column 2 at offset 3 wants 1 bytes, the message ends at 3",
    ),
    "a missing length": (
        '00 01 "t" 00 00',
        "Insert is truncated: length of column 1 at offset 3 wants 4 bytes, the message ends at 5",
    ),
    "a missing value": (
        '00 01 "t" 00 00 00 03 "ab"',
        "Insert is truncated: column 1 at offset 7 wants 3 bytes, the message ends at 9",
    ),
    "a negative length": (
        '00 01 "b" FF FF FF FF',
        "Insert is truncated: column 1 at offset 7 wants -1 bytes, the message ends at 7",
    ),
    "a length of 2 GiB": (
        '00 01 "t" 7F FF FF FF "ab"',
        "Insert is truncated: column 1 at offset 7 wants 2147483647 bytes, the message ends at 9",
    ),
}


@pytest.mark.parametrize(("data", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_a_malformed_tuple_is_refused(data: str, complaint: str) -> None:
    with pytest.raises(ProtocolError) as refusal:
        read(layout(data))
    assert str(refusal.value) == complaint
