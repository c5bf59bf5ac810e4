"""Stdin, stdout and stderr as whoever started us left them: closed, full, or a pipe that nobody reads.

Stdout is for results, and one that can't be told is an error. What stands on stderr is for whoever reads it:
nothing ends because nobody can.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from pgrelay.errors import PgrelayError


def open_closed() -> None:
    """Fill the place of streams that are closed, which the first socket would take."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Stdout is for reading only, so that writing a result fails. The lowest number is taken.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale without UTF-8 has not every character of a table's name, nor those of a drawn line.
        sys.stdout.reconfigure(errors="backslashreplace")


def tell(text: str) -> None:
    """Write a result to stdout. Raises PgrelayError where that is not possible."""
    with while_read():
        try:
            print(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _give_up(sys.stdout)
            raise PgrelayError(
                f"stdout can't be written: {error.strerror}; send it where there is room"
            ) from None


@contextmanager
def while_read() -> Iterator[None]:
    """Let a reader that has seen enough (`pgrelay schema | head`) close the pipe without a complaint."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up(sys.stdout)


def complain(text: str) -> None:
    """Write to stderr, if anybody is there to read it."""
    with suppress(OSError):
        print(text, file=sys.stderr)


def end() -> None:
    """Let go of what they did not take: the interpreter would end with a failure of its own for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _give_up(stream)


def _give_up(stream: TextIO) -> None:
    """The interpreter flushes once more when it exits; there is nothing left to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
