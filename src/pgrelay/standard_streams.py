"""Copes with stdin, stdout and stderr in any state: closed, full, or a pipe that nobody reads.

Stdout is for results, and a result that can't be written is an error. Stderr is for messages, and nothing
fails because they can't be written.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from pgrelay.errors import PgrelayError


def reopen_closed_streams() -> None:
    """Open /dev/null in place of closed streams, or the first file or socket would get their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Stdout is opened for reading, so that writing a result fails. open takes the lowest number.
            opened = os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
            # Or a program that we start, such as Java, would begin with it closed.
            os.set_inheritable(opened, True)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale without UTF-8 lacks some characters of table names, and box-drawing characters.
        sys.stdout.reconfigure(errors="backslashreplace")


def print_result(text: str) -> None:
    """Write a result to stdout. Raises PgrelayError if that fails, unless the reader has gone."""
    with tolerate_closed_pipe():
        try:
            print(text)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _discard(sys.stdout)
            raise PgrelayError(
                f"stdout can't be written: {error.strerror}; redirect it to where there is room"
            ) from None


@contextmanager
def tolerate_closed_pipe() -> Iterator[None]:
    """Let a reader that has seen enough (`pgrelay schema | head`) close the pipe without an error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)


def print_error(text: str) -> None:
    """Write to stderr; a stderr that can't be written is ignored."""
    with suppress(OSError):
        print(text, file=sys.stderr)


def flush_or_discard() -> None:
    """Flush stdout and stderr; discard what can't be written, or the interpreter would fail as it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Send the stream to /dev/null from now on: the interpreter flushes it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
