"""The terminal: lines that scroll by, and below them a status line that stays and changes.

Plain ANSI, and only on a terminal: elsewhere there are no colours and no status line. NO_COLOR
(https://no-color.org) only turns off the colours.
"""

import itertools
import os
import shutil
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self, TextIO

# Pieces of text, each with its style.
Piece = tuple[str, str]
Line = list[Piece]

_STYLES: Final = {
    "": "",
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

_CLEAR_LINE: Final = "\r\x1b[K"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"

_WIDTH_OF_NO_TERMINAL: Final = 120


class Screen:
    """Writes to a stream while its block runs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self.live and not os.environ.get("NO_COLOR")
        self._status = ""

    def __enter__(self) -> Self:
        if self.live:
            self._stream.write(_HIDE_CURSOR)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self._stream.write(_CLEAR_LINE + _SHOW_CURSOR)
            self._stream.flush()

    def show(self, lines: Iterable[Line]) -> None:
        """Print lines that scroll by, each clipped to the terminal's width."""
        width = _width()
        text = "".join(self._paint(clip(line, width)) + "\n" for line in lines)
        if text:
            self._write(text)

    def say(self, text: str = "", style: str = "") -> None:
        """Print a line that scrolls by and is never clipped."""
        self._write(self._paint([(style, text)]) + "\n")

    def set_status(self, line: Line) -> None:
        """Replace the status line below the others; pieces that don't fit are left out."""
        if self.live:
            # Leave room for the ^C that the terminal prints: a wrapped line could not be cleared.
            lengths = itertools.accumulate(len(text) for _, text in line)
            fitting = [piece for piece, end in zip(line, lengths, strict=True) if end < _width() - len("^C")]
            self._status = self._paint(fitting)
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"{_CLEAR_LINE}{text}{self._status}" if self.live else text)
        self._stream.flush()

    def _paint(self, line: Line) -> str:
        if not self._colour:
            return "".join(text for _, text in line).rstrip()
        return "".join(
            f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text else text for style, text in line
        )


def clip(line: Line, width: int) -> Line:
    """Cut the line to `width`, with an ellipsis if something was cut off."""
    if sum(len(text) for _, text in line) <= width:
        return line
    clipped: Line = []
    left = width - 1
    for style, text in line:
        clipped.append((style, text[:left]))
        left -= len(clipped[-1][1])
    return [*clipped, ("dim", "…")]


def _width() -> int:
    return shutil.get_terminal_size((_WIDTH_OF_NO_TERMINAL, 24)).columns
