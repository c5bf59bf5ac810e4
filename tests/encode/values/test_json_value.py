"""JSON strings, and values of each kind of encoding that are written where they belong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.values.json_value import json_string, json_string_checked
from pgrelay.encode.values.text import text_encoding
from tests.encode.json_values import ALL_CHOICES, built_in

VALUES = {
    16: [b"t", b"f"],
    23: [b"0", b"-2147483648"],
    25: [b"", b"plain", b'say "hi"', b"a\\b\x01", "é漢😀".encode() * 20],
    701: [b"1.5", b"NaN", b"-Infinity", b"1e+300"],
    1184: [b"2026-11-20 14:54:02.343135+00", b"infinity", b"0044-03-15 00:00:00+00 BC"],
    2950: [b"8f14e45f-ceea-467f-a9a1-5e6c0b6d1c11"],
    17: [b"\\x00ff"],
}


@pytest.mark.parametrize(
    ("oid", "value"), [(oid, value) for oid, values in VALUES.items() for value in values]
)
@given(before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_a_value_in_the_middle_of_bytes_is_written_as_if_it_were_alone(
    oid: int, value: bytes, before: bytes, after: bytes
) -> None:
    for choices in ALL_CHOICES:
        encoding = text_encoding(built_in(oid), choices)
        writer = BytesWriter()
        encoding.write(writer, before + value + after, len(before), len(before) + len(value))
        assert writer.getvalue() == encoding.encode(value)


@pytest.mark.parametrize("value", [b"", b"x", b"tt", b"true"])
def test_only_t_and_f_are_booleans(value: bytes) -> None:
    element, writer = text_encoding(built_in(16), Encodings()), BytesWriter()
    with pytest.raises(ValueError, match="is not a boolean"):
        element.write(writer, b"t" + value + b"t", 1, 1 + len(value))
    assert writer.getvalue() == b""


class TestJsonString:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (b"", b'""'),
            (b"plain", b'"plain"'),
            (b'say "hi"', rb'"say \"hi\""'),
            (b"back\\slash", rb'"back\\slash"'),
            (b"\b\t\n\f\r", rb'"\b\t\n\f\r"'),
            (b"\x01\x0b\x1f", rb'"\u0001\u000b\u001f"'),
            (b"\x7f/'", b'"\x7f/\'"'),
            ("é漢😀\u2028".encode(), '"é漢😀\u2028"'.encode()),
        ],
    )
    def test_escapes_only_what_json_requires(self, text: bytes, expected: bytes) -> None:
        assert json_string(text) == expected

    @given(st.text())
    def test_reads_back_as_the_same_text(self, text: str) -> None:
        assert json.loads(json_string(text.encode())) == text

    @given(st.text())
    def test_is_what_pythons_json_writes(self, text: str) -> None:
        assert json_string(text.encode()) == json.dumps(text, ensure_ascii=False).encode()

    @given(st.text())
    def test_checked_writes_the_same_for_valid_utf8(self, text: str) -> None:
        assert json_string_checked(text.encode()) == json_string(text.encode())

    @pytest.mark.parametrize(
        "text", [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
    )
    def test_checked_refuses_what_is_not_utf_8(self, text: bytes) -> None:
        with pytest.raises(ValueError, match="text is not UTF-8"):
            json_string_checked(text)
