"""LSNs as Postgres prints them (manual, "pg_lsn Type"), and its clock."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.lsn import POSTGRES_EPOCH_US, format_lsn, parse_lsn, postgres_us, unix_us


@pytest.mark.parametrize(
    ("text", "lsn"),
    [
        ("0/0", 0),
        ("0/16B3740", 0x16B3740),
        ("16/B374D848", 0x16_B374D848),
        ("1/0", 1 << 32),
        ("7FFFFFFF/FFFFFFFF", 2**63 - 1),
        ("80000000/0", 2**63),
        ("FFFFFFFF/FFFFFFFF", 2**64 - 1),
    ],
)
def test_an_lsn_is_two_hexadecimal_halves(text: str, lsn: int) -> None:
    assert parse_lsn(text) == lsn
    assert format_lsn(lsn) == text


@given(st.integers(0, 2**64 - 1))
def test_a_formatted_lsn_is_parsed_back(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_an_lsn_is_printed_as_postgres_does(high: int, low: int) -> None:
    """Its format is %X/%X."""
    assert format_lsn(high << 32 | low) == "%X/%X" % (high, low)  # noqa: UP031


@pytest.mark.parametrize("text", ["16/b374d848", "00000016/B374D848", "016/b374D848"])
def test_lower_case_and_leading_zeros_are_accepted(text: str) -> None:
    assert parse_lsn(text) == 0x16_B374D848


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "/",
        "0/",
        "/0",
        "0/0/0",
        " 0/0",
        "0/0 ",
        "0/0\n",
        "0 / 0",
        "-1/0",
        "+1/0",
        "0x1/0",
        "1_0/0",
        "G/0",
        "0\\0",
        "123456789/0",
        "0/123456789",
        "\uff11/0",
        "\u0661/0",
        "23740096",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not an LSN: write it as Postgres does, 16/B374D848$"
    ) as refusal:
        parse_lsn(text)
    assert str(refusal.value).startswith(repr(text))


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        lsn = parse_lsn(text)
    except ValueError:
        return
    assert 0 <= lsn < 2**64


def test_postgres_counts_from_the_year_2000() -> None:
    assert datetime.fromtimestamp(POSTGRES_EPOCH_US / 1_000_000, UTC) == datetime(2000, 1, 1, tzinfo=UTC)
    assert unix_us(0) == POSTGRES_EPOCH_US
    assert postgres_us(0) == -POSTGRES_EPOCH_US


@given(st.integers(-(2**63), 2**63 - 1))
def test_times_convert_there_and_back(us: int) -> None:
    assert postgres_us(unix_us(us)) == us
    assert unix_us(postgres_us(us)) == us
