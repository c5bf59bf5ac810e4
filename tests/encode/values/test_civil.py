"""Day arithmetic, compared with datetime within its years and with its own inverse outside of them."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrelay.encode.values.civil import civil_from_days, days_from_civil

EPOCH = date(1970, 1, 1)


@pytest.mark.parametrize(
    ("year", "month", "day", "days"),
    [
        (1970, 1, 1, 0),
        (1969, 12, 31, -1),
        (2000, 1, 1, 10_957),
        (2000, 2, 29, 11_016),
        (1, 1, 1, -719_162),
        (0, 12, 31, -719_163),  # 1 BC, a leap year
        (0, 2, 29, -719_469),
        (-43, 3, 15, -735_160),  # 44 BC, the Ides of March
        (-4713, 11, 24, -2_440_588),  # Postgres's first date, Julian day 0
        (5_874_897, 12, 31, 2_145_042_905),  # and its last
    ],
)
def test_known_days(year: int, month: int, day: int, days: int) -> None:
    assert days_from_civil(year, month, day) == days
    assert civil_from_days(days) == (year, month, day)


@given(st.dates())
def test_days_agree_with_datetime(day: date) -> None:
    days = days_from_civil(day.year, day.month, day.day)
    assert EPOCH + timedelta(days) == day
    assert civil_from_days(days) == (day.year, day.month, day.day)


@given(st.integers(-2_500_000, 2_200_000_000))
def test_every_day_of_postgres_survives_the_round_trip(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days
