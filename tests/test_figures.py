"""Figures formatted for people."""

import pytest

from pgrelay.figures import age, ago, count, counted, duration, size


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (0.4, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (12_400, "12.1 KiB"),
        ((1 << 20) - 1, "1.00 MiB"),
        (3 << 29, "1.50 GiB"),
        (1000 << 30, "1000 GiB"),
        (5000 << 50, "5000 PiB"),
    ],
)
def test_sizes_have_binary_units(n: int, text: str) -> None:
    assert size(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0018, "1.80 ms"),
        (0.25, "250 ms"),
        (9.0, "9.00 s"),
        (59.4, "59.4 s"),
        (59.9, "1 min 0 s"),
        (317, "5 min 17 s"),
        (3599.9, "1 h 0 min"),
        (3 * 3600 + 150, "3 h 2 min"),
        (86_399.9, "1 d 0 h"),
        (54 * 86_400 + 17 * 3600, "54 d 17 h"),
        (4000 * 86_400, "4,000 d 0 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ages_have_whole_seconds() -> None:
    assert age(17.9) == "17 s"
    assert [ago(0.5), ago(17.9), ago(317)] == ["just now", "17 s ago", "5 min 17 s ago"]


@pytest.mark.parametrize(("n", "text"), [(0, "0"), (3.26, "3.3"), (3, "3"), (4039.4, "4,039")])
def test_counts_have_thousands_separators(n: float, text: str) -> None:
    assert count(n) == text


def test_counted_things_have_a_plural() -> None:
    assert counted(1, "table") == "1 table"
    assert counted(0, "table") == "0 tables"
    assert counted(12345, "table") == "12,345 tables"
