"""The documentation's pages, and the fenced blocks in them."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_FENCE: Final = re.compile(r"( *)```(\w*) *")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language ("" without one), its text, and the line of its fence."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def pages() -> dict[str, str]:
    """Every page by its path below the root."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}


@cache
def blocks(*languages: str) -> tuple[Block, ...]:
    """The blocks in one of these languages; every block if none is named."""
    found = (block for page, text in pages().items() for block in _blocks(page, text))
    return tuple(block for block in found if not languages or block.language in languages)


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    kept, fenced = [], False
    for line in text.splitlines():
        if _FENCE.fullmatch(line):
            fenced = not fenced
        elif not fenced:
            kept.append(line)
    return "\n".join(kept)


def _blocks(page: str, text: str) -> list[Block]:
    found: list[Block] = []
    opened: tuple[int, str, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            if opened:
                inside.append(line.removeprefix(opened[2]))
        elif opened is None:
            opened, inside = (number, fence[2], fence[1]), []
        else:
            found.append(Block(page, opened[0], opened[1], "\n".join(inside) + "\n"))
            opened = None
    assert opened is None, f"{page}:{opened and opened[0]}: the block is never closed"
    return found
