"""The error for a value that the server can't have written."""

from pgrelay.encode.invalid_value import invalid_value


def test_the_error_says_what_the_value_is_not() -> None:
    assert str(invalid_value(b"maybe", "a boolean")) == "'maybe' is not a boolean"


def test_the_error_shows_only_the_beginning_of_a_long_value() -> None:
    message = str(invalid_value(b"x" * 1_000_000, "an array"))
    assert message.startswith("'xxx")
    assert message.endswith("...' is not an array")
    assert len(message) < 100
