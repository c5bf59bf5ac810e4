"""Figures as people read them."""

import pytest

from pgrelay.status.figures import age, ago, count, counted, duration, size


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_400, "12.4 kB"), (18_200_000_000, "18.2 GB")],
)
def test_sizes(n: int, text: str) -> None:
    assert size(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0018, "1.80 ms"),
        (0.25, "250 ms"),
        (9.0, "9.00 s"),
        (59.9, "59.9 s"),
        (317, "5 min 17 s"),
        (3 * 3600 + 150, "3 h 2 min"),
        (54 * 86_400 + 17 * 3600, "54 d 17 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ages_have_whole_seconds() -> None:
    assert age(17.9) == "17 s"
    assert [ago(0.5), ago(17.9), ago(317)] == ["just now", "17 s ago", "5 min 17 s ago"]


@pytest.mark.parametrize(("n", "text"), [(0, "0"), (3.26, "3.3"), (3, "3"), (4039.4, "4,039")])
def test_counts(n: float, text: str) -> None:
    assert count(n) == text


def test_one_of_a_thing_is_no_plural() -> None:
    assert [counted(n, "record") for n in (0, 1, 4039)] == ["0 records", "1 record", "4,039 records"]
