"""JSON forms of float, numeric and money, from text."""

import base64
import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from pgrelay.encode.encodings import Encodings
from pgrelay.encode.values.numbers import (
    declared_scale,
    is_number,
    json_number,
    money_digits,
    variable_decimal,
    write_json_number,
)
from pgrelay.encode.values.text import text_encoding
from tests.encode.json_values import built_in, from_text, numeric_typmod

DOUBLE = Encodings(numeric="double")
PRECISE = Encodings(numeric="precise")


def test_integers_are_copied() -> None:
    for oid in (20, 21, 23, 26):  # int8, int2, int4, oid
        assert from_text(built_in(oid), b"-42") == b"-42"


@pytest.mark.parametrize(
    "number", [b"0", b"-0", b"1e+20", b"1.5e-05", b"100000", b"0.0001", b"-12.50", b"1e+06"]
)
def test_a_float_keeps_postgress_digits(number: bytes) -> None:
    assert json_number(number) == number
    assert isinstance(json.loads(number), int | float)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_nan_and_infinity_are_strings(number: bytes) -> None:
    assert json_number(number) == b'"' + number + b'"'


@pytest.mark.parametrize(
    "value", [b"", b"-", b"1,5", b"1.", b".5", b"+1", b"0x10", b"inf", b"nan", b" 1", b"1_0"]
)
def test_json_number_refuses_what_postgres_never_prints(value: bytes) -> None:
    with pytest.raises(ValueError, match="is not a number as Postgres prints one"):
        json_number(value)


@given(
    st.one_of(st.floats(), st.integers(), st.text("0123456789+-.e", max_size=8), st.just("NaN")),
    st.binary(max_size=9),
)
def test_the_fast_path_copies_exactly_the_valid_numbers(number: object, behind: bytes) -> None:
    value = str(number).encode()
    writer = BytesWriter()
    written = write_json_number(writer, b"row" + value + behind, 3, 3 + len(value))
    assert written == is_number(value)
    assert writer.getvalue() == (value if written else b"")


class TestNumeric:
    """`string` by default, or as configured."""

    @pytest.mark.parametrize("value", [b"0", b"-12.50", b"1" * 200, b"NaN", b"Infinity", b"-Infinity"])
    def test_string_keeps_postgress_digits(self, value: bytes) -> None:
        assert from_text(built_in(1700), value) == b'"' + value + b'"'

    def test_double_is_a_number_with_postgress_digits(self) -> None:
        assert from_text(built_in(1700), b"12345678901234567890.120", DOUBLE) == b"12345678901234567890.120"
        assert from_text(built_in(1700), b"NaN", DOUBLE) == b'"NaN"'

    @pytest.mark.parametrize(
        ("precision", "scale", "value", "unscaled"),
        [
            (5, 2, b"0.00", 0),
            (5, 2, b"1.27", 127),
            (5, 2, b"1.2", 120),
            (5, 2, b"1.28", 128),
            (5, 2, b"-1.28", -128),
            (5, 2, b"-1.29", -129),
            (9, 0, b"123456789", 123_456_789),
            (5, -2, b"12300", 123),  # rounded to hundreds by the server
            (5, -2, b"-1234500", -12_345),
            (5, -2, b"0", 0),
            (3, 5, b"0.00123", 123),
            (3, 5, b"-0.00999", -999),
        ],
    )
    def test_precise_is_the_unscaled_value_at_the_declared_scale(
        self, precision: int, scale: int, value: bytes, unscaled: int
    ) -> None:
        text = json.loads(from_text(built_in(1700, numeric_typmod(precision, scale)), value, PRECISE))
        assert int.from_bytes(base64.b64decode(text), "big", signed=True) == unscaled

    @pytest.mark.parametrize(
        ("value", "bytes_"),
        [
            (b"0", b"\x00"),
            (b"127", b"\x7f"),
            (b"128", b"\x00\x80"),
            (b"-1", b"\xff"),
            (b"-128", b"\x80"),
            (b"-129", b"\xff\x7f"),
        ],
    )
    def test_precise_takes_as_few_bytes_as_javas_biginteger(self, value: bytes, bytes_: bytes) -> None:
        text = json.loads(from_text(built_in(1700, numeric_typmod(5, 0)), value, PRECISE))
        assert base64.b64decode(text) == bytes_

    def test_precise_without_a_declared_scale_carries_the_scale(self) -> None:
        assert from_text(built_in(1700), b"1.27", PRECISE) == b'{"scale":2,"value":"fw=="}'
        assert from_text(built_in(1700), b"-128", PRECISE) == b'{"scale":0,"value":"gA=="}'

    @pytest.mark.parametrize("typmod", [-1, numeric_typmod(5, 2)])
    @pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity"])
    def test_precise_keeps_nan_and_infinity_as_strings(self, typmod: int, value: bytes) -> None:
        assert from_text(built_in(1700, typmod), value, PRECISE) == b'"' + value + b'"'

    def test_precise_refuses_a_value_with_more_digits_than_its_scale(self) -> None:
        with pytest.raises(ValueError, match="rounded to the declared scale of 2"):
            from_text(built_in(1700, numeric_typmod(5, 2)), b"1.275", PRECISE)

    @pytest.mark.parametrize("value", [b"", b"1,5", b"1e+5", b"one"])
    def test_precise_refuses_what_postgres_never_prints(self, value: bytes) -> None:
        with pytest.raises(ValueError, match=r"is not a numeric|invalid literal"):
            from_text(built_in(1700), value, PRECISE)

    @given(st.decimals(allow_nan=False, allow_infinity=False, places=7))
    def test_precise_loses_nothing(self, number: Decimal) -> None:
        decoded = json.loads(variable_decimal(f"{number:f}".encode()))
        unscaled = int.from_bytes(base64.b64decode(decoded["value"]), "big", signed=True)
        assert Fraction(unscaled, 10 ** decoded["scale"]) == Fraction(number)

    @pytest.mark.parametrize("digits", [3_999, 4_001, 20_000, 131_072])
    def test_precise_takes_the_longest_numerics(self, digits: int) -> None:
        """Python's own int() stops at 4,300 digits."""
        decoded = json.loads(variable_decimal(b"-" + b"9" * digits))
        assert int.from_bytes(base64.b64decode(decoded["value"]), "big", signed=True) == -(10**digits) + 1

    @pytest.mark.parametrize(
        ("choices", "typmod", "name"),
        [
            (Encodings(), -1, "string"),
            (DOUBLE, -1, "number"),
            (PRECISE, -1, "variable-decimal"),
            (PRECISE, numeric_typmod(5, 2), "decimal-base64"),
        ],
    )
    def test_each_choice_has_its_encodings_name(self, choices: Encodings, typmod: int, name: str) -> None:
        assert text_encoding(built_in(1700, typmod), choices).name == name


@pytest.mark.parametrize("scale", [-1000, -2, -1, 0, 1, 2, 1000])
def test_the_declared_scale_is_signed(scale: int) -> None:
    assert declared_scale(numeric_typmod(1000, scale)) == scale


class TestMoney:
    @pytest.mark.parametrize(
        ("value", "digits"),
        [
            (b"$0.00", b"0.00"),
            (b"$1,234.56", b"1234.56"),
            (b"-$1,234.56", b"-1234.56"),
            (b"-$92,233,720,368,547,758.08", b"-92233720368547758.08"),
        ],
    )
    def test_money_keeps_only_sign_digits_and_point(self, value: bytes, digits: bytes) -> None:
        assert money_digits(value) == b'"' + digits + b'"'

    @pytest.mark.parametrize(
        "value", [b"", b"1234.56", "1.234,56 €".encode(), b"$1.234,56", b"$1.234", b"($1.00)", b"$", b"$x.00"]
    )
    def test_other_locales_are_refused(self, value: bytes) -> None:
        with pytest.raises(ValueError, match="lc_monetary = C"):
            money_digits(value)
