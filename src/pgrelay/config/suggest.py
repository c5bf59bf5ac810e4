"""The message for an unknown key."""

from collections.abc import Sequence
from difflib import get_close_matches


def unknown_key(name: str, known: Sequence[str]) -> str:
    """`unknown key; did you mean slot?`, or all known names if none is close."""
    near = get_close_matches(name.lower(), known, n=1)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    return f"unknown key; known keys: {', '.join(known)}"
