"""How findings are worded."""

import pytest

from pgrelay.check.findings import Finding, mistake, refused, some
from pgrelay.errors import GapError, SetupError


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


def test_what_would_lose_changes_is_marked_as_a_gap() -> None:
    assert refused(GapError("slot s is gone; begin anew"), "because").gap
    assert not refused(SetupError("slot s is physical; take another"), "because").gap


def test_a_few_names_and_how_many_more() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcde")) == "a, b, c, d, e"
    assert some(list("abcdefg"), "; ") == "a; b; c; d; e; and 2 more"


@pytest.mark.parametrize(
    ("line", "what", "cure"),
    [
        ("f: sink.partitions: expected 1 or more; got '0'", "f: sink.partitions: got '0'", "write 1 or more"),
        (
            "f: a.b: expected a list, such as [a, b]; got 'x; y: z'",
            "f: a.b: got 'x; y: z'",
            "write a list, such as [a, b]",
        ),
        (
            "f: source.slto: unknown key; did you mean slot?",
            "f: source.slto: unknown key",
            "did you mean slot?",
        ),
        (
            "f: expected sections (source, sink), each a mapping of keys",
            "f",
            "expected sections (source, sink), each a mapping of keys",
        ),
    ],
)
def test_a_mistake_in_the_configuration_has_what_was_expected_for_its_cure(
    line: str, what: str, cure: str
) -> None:
    """Its cure was `got '0'`."""
    assert mistake(line, "because") == Finding("error", what, "because", cure)
