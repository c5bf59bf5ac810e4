"""How findings are worded."""

import pytest

from pgrelay.check.findings import Finding, first_few, refusal_finding
from pgrelay.errors import GapError, SetupError


@pytest.mark.parametrize(
    ("message", "what", "cure"),
    [
        ("source.slot: x is physical; take another", "source.slot: x is physical", "take another"),
        ("a and b share a topic: change records.topic", "a and b share a topic", "change records.topic"),
        ("two; parts; the cure: this", "two; parts", "the cure: this"),
        ("f: a.b: got 'x; y: z'; write a list", "f: a.b: got 'x; y: z'", "write a list"),
    ],
)
def test_our_errors_are_split_into_what_and_cure(message: str, what: str, cure: str) -> None:
    assert refusal_finding(SetupError(message), "because") == Finding("error", what, "because", cure)


def test_an_error_that_means_lost_changes_is_marked_as_a_gap() -> None:
    assert refusal_finding(GapError("slot s is gone; begin anew"), "because").gap
    assert not refusal_finding(SetupError("slot s is physical; take another"), "because").gap


def test_long_lists_are_cut_and_the_rest_counted() -> None:
    assert first_few(["a", "b"]) == "a, b"
    assert first_few(list("abcde")) == "a, b, c, d, e"
    assert first_few(list("abcdefg"), "; ") == "a; b; c; d; e; and 2 more"
