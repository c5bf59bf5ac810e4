"""What to say about a name that is not known."""

from collections.abc import Sequence
from difflib import get_close_matches


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """`unknown key; did you mean slot?`, or all known names where none is near. `what`: key, variable."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"unknown {what}; did you mean {near[0]}?"
    return f"unknown {what}; known are {', '.join(known)}"
