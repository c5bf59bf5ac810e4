"""What a terminal may show of text that others wrote."""

from hypothesis import given
from hypothesis import strategies as st

from pgrelay.printable import printable


@given(st.text())
def test_what_is_shown_is_one_line_of_printable_characters(text: str) -> None:
    assert printable(text).isprintable()


@given(st.text().filter(str.isprintable))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_an_escape_shows_which_character_it_was() -> None:
    assert printable("a\x1b[1m\nb\u202e") == r"a\x1b[1m\nb\u202e"
