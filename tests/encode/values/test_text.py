"""JSON strings, and the encoding of each type that comes as text."""

import json

import pytest

from pgrelay.encode.encodings import CONVERT, Encodings
from pgrelay.encode.types import ColumnType
from pgrelay.encode.values.json_value import BOOL, FLOAT, QUOTED, RAW, TEXT, TIMESTAMP, TIMESTAMPTZ
from pgrelay.encode.values.text import text_encoding
from tests.encode.json_values import ALL_CHOICES, built_in, from_text

CHECKED = Encodings(validate_utf8=True)


@pytest.mark.parametrize(
    ("oid", "kind", "name"),
    [
        *[(oid, RAW, "integer") for oid in (20, 21, 23, 26)],
        *[(oid, FLOAT, "number") for oid in (700, 701)],
        (16, BOOL, "boolean"),
        (1114, TIMESTAMP, "iso-timestamp"),
        (1184, TIMESTAMPTZ, "iso-timestamp"),
        *[(oid, TEXT, "string") for oid in (19, 25, 1042, 1043, 142, 114, 3802)],  # name to xml, json
        *[(oid, QUOTED, "string") for oid in (2950, 1560, 1562, 1700)],  # uuid, bit, varbit, numeric
        *[(oid, QUOTED, "string") for oid in (650, 869, 829, 774, 3220)],  # addresses, pg_lsn
        *[(oid, QUOTED, "string") for oid in (600, 601, 602, 603, 604, 628, 718)],  # shapes
        *[
            (oid, QUOTED, "string") for oid in (27, 28, 29, 5069, 6437, 22, 30, 2970, 5038)
        ],  # tid to snapshots
        *[(oid, TEXT, "string") for oid in (3614, 3615, 4072, 2205, 3904, 4451, 1033)],  # Postgres's own text
        (17, CONVERT, "base64"),
        (1007, CONVERT, "array<integer>"),
        (1185, CONVERT, "array<iso-timestamp>"),
        (6152, CONVERT, "array<string>"),
    ],
)
def test_the_encoding_of_a_type(oid: int, kind: int, name: str) -> None:
    encoding = text_encoding(built_in(oid), Encodings())
    assert (encoding.kind, encoding.name) == (kind, name)
    assert (encoding.convert is not None) == (kind not in (RAW, QUOTED, TEXT, BOOL))


@pytest.mark.parametrize(
    "column",
    [
        ColumnType(16_500, "mood", typtype="e"),
        ColumnType(16_501, "address", typtype="c"),
        ColumnType(16_502, "citext"),
        ColumnType(16_503, "geometry"),
        ColumnType(16_504, "floatrange", element=built_in(701), typtype="r"),
        ColumnType(16_505, "hstore", typtype="e"),  # any type may have this name
    ],
)
def test_an_unknown_type_keeps_postgress_text(column: ColumnType) -> None:
    for choices in ALL_CHOICES:
        assert from_text(column, b'("a b",1)', choices) == rb'"(\"a b\",1)"'


def test_booleans() -> None:
    assert from_text(built_in(16), b"t") == b"true"
    assert from_text(built_in(16), b"f") == b"false"
    with pytest.raises(ValueError, match="is not a boolean"):
        from_text(built_in(16), b"true")


class TestBytea:
    @pytest.mark.parametrize(
        ("value", "base64", "hexadecimal"),
        [
            (b"\\x", b'""', b'""'),
            (b"\\x00", b'"AA=="', b'"00"'),
            (b"\\xdeadbeef", b'"3q2+7w=="', b'"deadbeef"'),
        ],
    )
    def test_is_base64_or_hex(self, value: bytes, base64: bytes, hexadecimal: bytes) -> None:
        assert from_text(built_in(17), value) == base64
        assert from_text(built_in(17), value, Encodings(binary="hex")) == hexadecimal

    @pytest.mark.parametrize("choices", [Encodings(), Encodings(binary="hex")])
    def test_the_other_output_is_refused(self, choices: Encodings) -> None:
        with pytest.raises(ValueError, match="bytea_output = hex"):
            from_text(built_in(17), b"\\000abc", choices)

    def test_broken_hexadecimal_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"[Hh]exadecimal"):
            from_text(built_in(17), b"\\x0g")
        with pytest.raises(ValueError, match="Odd-length"):
            from_text(built_in(17), b"\\x0")


class TestJson:
    @pytest.mark.parametrize("oid", [114, 3802])
    def test_is_a_string_or_the_inline_document(self, oid: int) -> None:
        document = b'{"a" : [1.50, "x"]}'
        assert json.loads(from_text(built_in(oid), document)) == document.decode()
        assert from_text(built_in(oid), document, Encodings(json="inline")) == document

    def test_an_inline_document_is_copied_raw(self) -> None:
        encoding = text_encoding(built_in(3802), Encodings(json="inline"))
        assert (encoding.kind, encoding.name) == (RAW, "json")

    def test_a_checked_inline_document_refuses_invalid_utf8(self) -> None:
        choices = Encodings(json="inline", validate_utf8=True)
        assert from_text(built_in(114), b'"ok"', choices) == b'"ok"'
        with pytest.raises(ValueError, match="text is not UTF-8"):
            from_text(built_in(114), b'"\xff"', choices)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"", b'""'), (b"a", b'"a"'), (b'"', rb'"\""'), (b"\xc3", rb'"\\303"'), (rb"\303", rb'"\\303"')],
)
def test_a_single_byte_past_ascii_is_octal_on_every_version(value: bytes, expected: bytes) -> None:
    assert from_text(built_in(18), value) == expected


def test_a_single_byte_converted_by_the_server_is_a_character() -> None:
    """From PostgreSQL 14 and 15 with a database in LATIN1, the byte 0xE9 comes as two bytes."""
    assert from_text(built_in(18), "é".encode()) == '"é"'.encode()


@pytest.mark.parametrize(
    "column", [built_in(25), built_in(1043), built_in(114), ColumnType(16_500, "mood", typtype="e")]
)
def test_checked_text_refuses_invalid_utf8(column: ColumnType) -> None:
    assert from_text(column, b"caf\xe9") == b'"caf\xe9"'
    with pytest.raises(ValueError, match="text is not UTF-8"):
        from_text(column, b"caf\xe9", CHECKED)


def test_checked_array_elements_refuse_invalid_utf8() -> None:
    with pytest.raises(ValueError, match="text is not UTF-8"):
        from_text(built_in(1009), b"{ok,caf\xe9}", CHECKED)
