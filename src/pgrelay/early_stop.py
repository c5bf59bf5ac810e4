"""A stop that is requested before it can be handled, such as while Python imports the command's modules.

By default such a SIGTERM kills the process, a SIGINT prints a traceback, and process 1 of a container ignores
SIGTERM.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


class Note:
    """Handles SIGTERM and SIGINT by remembering the first: `number` is 0 until one comes."""

    def __init__(self) -> None:
        self.number = 0
        self._before = {number: signal.signal(number, self) for number in _NUMBERS}

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number

    def give_back(self) -> None:
        """Restore the signals' earlier handlers."""
        for number, action in self._before.items():
            if action is not None:  # set by something other than Python
                signal.signal(number, action)


class _Hold(Note):
    """Also lets the second signal through: whoever sends it does not want to wait."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number == 0:
            self.number = number
            return
        self.number = 0
        self.give_back()
        signal.raise_signal(number)


def handle(action: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Have SIGTERM and SIGINT call `action` from now on, or SIG_IGN ignore them."""
    for number in _NUMBERS:
        signal.signal(number, action)


def noted() -> Note | None:
    """The Note that handles the signals now; None if something else does."""
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, Note) else None


@contextmanager
def held_back() -> Iterator[None]:
    """Holds back a SIGTERM or SIGINT until the block has ended, but not a second one.

    They interrupt only the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hold = _Hold()
    try:
        yield
    finally:
        hold.give_back()
        if hold.number:
            signal.raise_signal(hold.number)


@contextmanager
def kept_interrupt() -> Iterator[None]:
    """Keeps the program's own handler of SIGINT, if it has one, though the block sets another."""
    own = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        ours = threading.current_thread() is threading.main_thread()
        if ours and own is not None and own is not signal.default_int_handler:
            signal.signal(signal.SIGINT, own)
