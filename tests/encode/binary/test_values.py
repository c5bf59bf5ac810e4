"""The encoding of each type that comes in binary: the same JSON as from text, or none at all."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.binary.values import binary_encoding, text_decoder
from pgrelay.encode.encodings import CONVERT, Encodings
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.json_value import RAW, TEXT
from pgrelay.encode.values.text import text_encoding
from tests.encode.json_values import ALL_CHOICES, built_in, from_binary, from_text
from tests.encode.samples import SAMPLES

MOOD = ColumnType(16_500, "mood", typtype="e")


@pytest.mark.parametrize(("oid", "text", "binary"), SAMPLES)
def test_a_value_gives_the_same_json_from_text_and_binary(oid: int, text: bytes, binary: str) -> None:
    column = built_in(oid)
    for choices in ALL_CHOICES:
        assert from_binary(column, bytes.fromhex(binary), choices) == from_text(column, text, choices)


@pytest.mark.parametrize("oid", sorted({oid for oid, _, _ in SAMPLES}))
def test_text_and_binary_encodings_have_the_same_name(oid: int) -> None:
    for choices in ALL_CHOICES:
        encoding = binary_encoding(built_in(oid), choices)
        assert encoding is not None
        assert encoding.name == text_encoding(built_in(oid), choices).name
        assert (encoding.convert is not None) == (encoding.kind == CONVERT)


@pytest.mark.parametrize(
    "column",
    [
        *[built_in(oid) for oid in (24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191)],  # reg*
        built_in(1033),  # aclitem
        built_in(3615),  # tsquery
        built_in(2210),  # an array of regclass
        ColumnType(16_501, "address", typtype="c"),
        ColumnType(16_502, "geometry"),
        ColumnType(16_503, "unknown"),
        ColumnType(16_504, "hstore", typtype="c"),
        ColumnType(16_505, "regrange", element=built_in(2205), typtype="r"),
        ColumnType(16_506, "intsrange", element=built_in(1007), typtype="r"),
        ColumnType(16_507, "norange", typtype="r"),
        ColumnType(16_508, "_address", element=ColumnType(16_501, "address", typtype="c")),
    ],
)
def test_an_unknown_binary_form_has_no_encoding(column: ColumnType) -> None:
    assert binary_encoding(column, Encodings()) is None


def test_a_binary_hstore_is_not_read_if_the_server_converts_text() -> None:
    hstore = ColumnType(16_510, "hstore")
    for column in (hstore, ColumnType(16_511, "_hstore", element=hstore)):
        assert binary_encoding(column, Encodings()) is not None
        assert binary_encoding(column, Encodings(server_transcodes=True)) is None


def test_text_is_text_in_binary_too() -> None:
    for column in (built_in(25), built_in(1043), built_in(142), MOOD, ColumnType(16_509, "citext")):
        encoding = binary_encoding(column, Encodings())
        assert encoding is not None
        assert encoding.kind == TEXT


def test_a_json_document_is_raw_in_binary_too() -> None:
    encoding = binary_encoding(built_in(114), Encodings(json="inline"))
    assert encoding is not None
    assert encoding.kind == RAW


def test_types_of_extensions_are_known_by_name() -> None:
    assert (
        from_binary(ColumnType(16_400, "hstore"), bytes.fromhex("00000001 00000001 61 ffffffff"))
        == b'{"a":null}'
    )
    assert from_binary(ColumnType(16_401, "ltree"), b"\1a.b") == b'"a.b"'


def test_user_defined_ranges() -> None:
    column = ColumnType(16_510, "floatrange", element=built_in(701), typtype="r")
    assert from_binary(column, b"\x12" + struct.pack(">id", 8, 1e23)) == b'"[9.999999999999999e+22,)"'
    moods = ColumnType(16_511, "moodrange", element=MOOD, typtype="r")
    assert from_binary(moods, b"\x12\0\0\0\x0avery happy") == rb'"[\"very happy\",)"'


def test_a_range_of_bytea_has_its_text_form() -> None:
    column = ColumnType(16_512, "bytearange", element=built_in(17), typtype="r")
    assert from_binary(column, b"\x12\0\0\0\2\0\xff") == rb'"[\"\\\\x00ff\",)"'


def test_an_arrays_modifier_applies_to_its_elements() -> None:
    value = bytes.fromhex("0000000100000000000006a40000000100000001 0000000c 0002000000000002 00011388")
    choices = Encodings(numeric="precise")
    assert from_binary(built_in(1231, ((5 << 16) | 2) + 4), value, choices) == b'["AJY="]'


def test_checked_text_refuses_invalid_utf8() -> None:
    for column in (built_in(25), MOOD, ColumnType(16_509, "citext")):
        with pytest.raises(ValueError, match="text is not UTF-8"):
            from_binary(column, b"caf\xe9", Encodings(validate_utf8=True))


@pytest.mark.parametrize(
    ("oid", "value"),
    [(16, b""), (16, b"\2"), (18, b""), (18, b"ab"), (27, b""), (3220, b""), (3802, b""), (3802, b"\2{}")],
)
def test_malformed_values_are_refused(oid: int, value: bytes) -> None:
    with pytest.raises(ValueError, match=r"is not|where its binary form has"):
        from_binary(built_in(oid), value)


@given(st.sampled_from(SAMPLES), st.data())
def test_only_free_text_may_be_truncated_unnoticed(
    sample: tuple[int, bytes, str], data: st.DataObject
) -> None:
    """A truncated value raises ValueError and nothing else. Only free text has no end to miss."""
    oid, _, binary = sample
    whole = bytes.fromhex(binary)
    cut = whole[: data.draw(st.integers(0, max(len(whole) - 1, 0)))]
    encoding = binary_encoding(built_in(oid), Encodings())
    assert encoding is not None
    try:
        encoding.encode(cut)
    except ValueError:
        return
    assert whole == cut or oid in (17, 19, 25, 114, 142, 1042, 1043, 1790, 3802, 4072)


def test_text_decoder_returns_postgress_text() -> None:
    decode = text_decoder(built_in(1114), Encodings())
    assert decode is not None
    assert decode(bytes(8)) == b"2000-01-01 00:00:00"


@pytest.mark.parametrize(("padded", "text"), [(False, b'"1/A"'), (True, b'"1/0000000A"')])
def test_an_lsn_is_printed_as_the_server_prints_it(padded: bool, text: bytes) -> None:
    """With 8 digits since PostgreSQL 19."""
    encoding = binary_encoding(built_in(3220), Encodings(padded_lsn=padded))
    assert encoding is not None
    assert encoding.encode((1 << 32 | 10).to_bytes(8, "big")) == text
