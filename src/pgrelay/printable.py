"""Escapes text from outside, such as a table's name, so that it is safe to show in a terminal."""


def printable(text: str) -> str:
    """The text with an escape for each character that would break the line or control the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
