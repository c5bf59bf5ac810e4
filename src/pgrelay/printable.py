"""Text that others wrote, such as a table's name, as a terminal may show it."""


def printable(text: str) -> str:
    """The text with an escape for each character that would break the line or command the terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
