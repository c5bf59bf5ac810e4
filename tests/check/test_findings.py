"""How findings are worded."""

import pytest

from pgrelay.check.findings import Finding, counted, duration, refused, size, some
from pgrelay.errors import SetupError


@pytest.mark.parametrize(
    ("message", "what", "cure"),
    [
        ("source.slot: x is physical; take another", "source.slot: x is physical", "take another"),
        ("a and b share a topic: change records.topic", "a and b share a topic", "change records.topic"),
        ("two; parts; the cure: this", "two; parts", "the cure: this"),
    ],
)
def test_an_error_of_ours_ends_in_its_cure(message: str, what: str, cure: str) -> None:
    assert refused(SetupError(message), "because") == Finding("error", what, "because", cure)


def test_a_few_names_and_how_many_more() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcde")) == "a, b, c, d, e"
    assert some(list("abcdefg"), "; ") == "a; b; c; d; e; and 2 more"


def test_counts() -> None:
    assert counted(1, "table") == "1 table"
    assert counted(0, "table") == "0 tables"
    assert counted(12345, "table") == "12,345 tables"


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (10 << 20, "10 MiB"),
        (3 << 30, "3.0 GiB"),
        (5000 << 40, "5,000.0 TiB"),
    ],
)
def test_sizes(n: int, text: str) -> None:
    assert size(n) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min 0 s"),
        (11400, "3 h 10 min"),
        (86400, "1 d 0 h"),
        (86400 * 400, "400 d"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
