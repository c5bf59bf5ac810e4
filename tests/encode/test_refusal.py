"""The error for a value that the server can't have written."""

from pgrelay.encode.refusal import refusal


def test_it_says_what_the_value_is_not() -> None:
    assert str(refusal(b"maybe", "a boolean")) == "b'maybe' is not a boolean"


def test_it_shows_only_how_a_long_value_begins() -> None:
    message = str(refusal(b"x" * 1_000_000, "an array"))
    assert message.startswith("b'xxx")
    assert message.endswith("...' is not an array")
    assert len(message) < 100
