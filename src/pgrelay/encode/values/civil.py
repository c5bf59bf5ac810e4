"""Day arithmetic in the proleptic Gregorian calendar, for every year that Postgres has.

Python's datetime ends at the years 1 and 9999; Postgres's dates run from 4714 BC to 5874897. Years are
astronomical here: 1 is 1 AD, 0 is 1 BC, -43 is 44 BC. Days count from 1970-01-01. The arithmetic is
Howard Hinnant's ("chrono-Compatible Low-Level Date Algorithms"): years begin in March, so that the leap
day is a year's last, and repeat every 400 years.
"""

from typing import Final

from mypy_extensions import i64

DAY_US: Final = 86_400_000_000

_DAYS_OF_ERA: Final = 146_097  # in 400 years
_EPOCH: Final = 719_468  # days from 0000-03-01 to 1970-01-01


def days_from_civil(year: i64, month: i64, day: i64) -> int:
    """Days since 1970-01-01 of a date, negative before it."""
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (
        era * _DAYS_OF_ERA + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _EPOCH
    )


def civil_from_days(days: i64) -> tuple[i64, i64, i64]:
    """The year, month and day that many days after 1970-01-01."""
    days += _EPOCH
    era = days // _DAYS_OF_ERA
    day_of_era = days - era * _DAYS_OF_ERA
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era
    return year + 1 if month <= 2 else year, month, day
